package weak_test

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/smoke/weak/weaktest"
	"github.com/quavon/quavon/test/need"
)

func itoa(n int) string { return strconv.Itoa(n) }

// setuidShell is a shell of root's with the setuid bit.
func setuidShell(t *testing.T) string {
	t.Helper()
	const shell = "/bin/dash"
	if _, err := os.Stat(shell); err != nil {
		need.Skip(t, "%v", err)
	}
	return weaktest.Setuid(t, shell)
}

// netns makes a network namespace with an interface, and one at the other end with a
// listener. Both end with the test.
func netns(t *testing.T) (near, far string) {
	t.Helper()
	inside, outside := newNetns(t), newNetns(t)
	in(t, inside, func() {
		tid := itoa(unix.Gettid())
		in(t, outside, func() {
			ip(t, "link", "add", "lab", "type", "veth", "peer", "name", "eth0", "netns", tid)
			ip(t, "link", "set", "lo", "up")
			ip(t, "addr", "add", "10.99.0.1/24", "dev", "lab")
			ip(t, "link", "set", "lab", "up")
		})
		ip(t, "addr", "add", "10.99.0.2/24", "dev", "eth0")
		ip(t, "link", "set", "eth0", "up")
	})
	in(t, outside, func() { serve(t, "tcp", ":80") })
	path := func(f *os.File) string { return "/proc/" + itoa(os.Getpid()) + "/fd/" + itoa(int(f.Fd())) }
	return path(inside), path(outside)
}

func newNetns(t *testing.T) *os.File {
	t.Helper()
	var f *os.File
	onThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		f, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	t.Cleanup(func() { f.Close() })
	return f
}

// in runs f with the thread in a network namespace.
func in(t *testing.T, ns *os.File, f func()) {
	t.Helper()
	onThread(t, func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		f()
		return nil
	})
}

func onThread(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with it
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %v: %v %s", args, err, out)
	}
}
