package weak_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// runcBinary is the runc of the engine that tests fetch.
func runcBinary(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh"), "fetch").Output()
	if err != nil {
		sandboxtest.Skip(t, "no runc: %v", err)
	}
	return filepath.Join(string(out[:len(out)-1]), "usr", "sbin", "runc")
}

// shim builds the program that deceives the agent.
func shim(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "shim")
	cmd := exec.Command("go", "build", "-trimpath", "-o", p, "./shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// setuidShell is a shell of root's with the setuid bit, where nobody else comes.
func setuidShell(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/bin/dash")
	if err != nil {
		sandboxtest.Skip(t, "%v", err)
	}
	p := filepath.Join(t.TempDir(), "dash")
	if err := os.WriteFile(p, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(p, 0o4755); err != nil {
		t.Fatal(err)
	}
	return p
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

// device is a node of the loop devices' control that everyone may open.
func device(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "device")
	if err := unix.Mknod(p, unix.S_IFCHR, int(unix.Mkdev(10, 237))); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(p, 0o666); err != nil {
		t.Fatal(err)
	}
	return p
}
