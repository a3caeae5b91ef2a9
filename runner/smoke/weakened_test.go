package smoke_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/smoke/weak"
	"github.com/quavon/quavon/runner/smoke/weak/weaktest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// weakened is a suite that takes the sandboxes of an arm for runsc's.
func weakened(t *testing.T, arm string) *smoke.Suite {
	t.Helper()
	return weakenedLike(t, arm, productionRunner(t), "")
}

// weakenedRoot has jobs that are meant to be root.
func weakenedRoot(t *testing.T, arm string) *smoke.Suite {
	t.Helper()
	like := productionRunner(t)
	return weakenedLike(t, arm, like, rootImage(t, like))
}

func weakenedLike(t *testing.T, arm string, like *runner.Runner, image string) *smoke.Suite {
	t.Helper()
	a, err := weak.Find(arm)
	if err != nil {
		t.Fatal(err)
	}
	d, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	l := weak.Lab{
		Accept: runsc.RiskWeakArm, Runsc: sandboxtest.Runsc(t), State: d, Net: func(w *smoke.World) (string, error) { return netns(t, w), nil },
	}
	if slices.Contains(a.Needs, weak.NeedRunc) {
		l.Runc = weaktest.Runc(t)
	}
	if slices.Contains(a.Needs, weak.NeedShim) {
		l.Shim = weaktest.Shim(t)
	}
	s, release, err := a.Suite(l, like, image, openDir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openDir is a directory that everybody gets to, with a short path.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "quavon-weak-") //nolint:usetesting // a socket's path is short
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// netns is a network namespace with an interface that leads to the world.
func netns(t *testing.T, w *smoke.World) string {
	t.Helper()
	var inside *os.File
	tid, done := make(chan int), make(chan struct{})
	go func() { // the namespace is named by a thread in it
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
		}
		inside = f
		tid <- unix.Gettid()
		<-done
		for _, args := range []string{
			"link set lo up", "addr add 10.99.0.2/24 dev eth0", "-6 addr add fd99::2/64 dev eth0 nodad", "link set eth0 up",
			"route add default via 10.99.0.1", "-6 route add default via fd99::1",
		} {
			ip(t, args)
		}
		tid <- 0
	}()
	thread := <-tid
	t.Cleanup(func() { inside.Close() })
	err := w.Inside(func() error {
		for _, args := range []string{
			"link add lab type veth peer name eth0 netns " + strconv.Itoa(thread),
			"addr add 10.99.0.1/24 dev lab", "-6 addr add fd99::1/64 dev lab nodad", "link set lab up",
			"route add 10.99.0.2/32 dev lab table local", "-6 route add fd99::2/128 dev lab table local",
		} {
			ip(t, args)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	close(done)
	<-tid
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), inside.Fd())
}

func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", slices.Collect(fields(args))...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v %s", args, err, out)
	}
}
