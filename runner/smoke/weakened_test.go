package smoke_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
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
	a, err := weak.Find(arm)
	if err != nil {
		t.Fatal(err)
	}
	like := productionRunner(t)
	s := smoke.For(like, "")
	world, err := smoke.NewWorld(fmt.Sprintf("%d-%s", os.Getpid(), arm))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	lab := newLab(t, a, world)
	r, err := a.Runner(lab, like)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	s.Runner, s.World, s.Locate = r, world, locate
	s.WithDoor = func(d runner.Door) smoke.Runner { return r.WithDoor(d) }
	return s
}

// locate lists the processes of a sandbox by its control group.
func locate(_ context.Context, id string) ([]int, error) { return cgroup.Detect().Group(id).Procs() }

// newLab has what an arm needs.
func newLab(t *testing.T, a weak.Arm, w *smoke.World) weak.Lab {
	t.Helper()
	d, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	l := weak.Lab{Runsc: sandboxtest.Runsc(t), State: d, HostNetns: w.Path(), Dial: func(context.Context, string, string) (c net.Conn, err error) {
		err = w.Inside(func() error { c, err = net.Dial("tcp", "127.0.0.1:80"); return err })
		return c, err
	}}
	make := map[weak.Need]func(){
		weak.NeedRunc:   func() { l.Runc = weaktest.Runc(t) },
		weak.NeedShim:   func() { l.Shim = weaktest.Shim(t) },
		weak.NeedSetuid: func() { l.Setuid = weaktest.Setuid(t, sandboxtest.Guest(t)) },
		weak.NeedDevice: func() { l.Device = weaktest.Device(t) },
		weak.NeedDir:    func() { l.Dir = openDir(t) },
		weak.NeedSocket: func() { l.Socket = socket(t) },
		weak.NeedNetns:  func() { l.Netns = netns(t, w) },
		weak.NeedSecret: func() { l.Secret = smoke.Secret() },
	}
	for _, n := range a.Needs {
		if f := make[n]; f != nil {
			f()
		}
	}
	return l
}

func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// socket greets whoever comes.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "quavon-socket-") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", p)
	if err == nil {
		t.Cleanup(func() { l.Close() })
		err = os.Chmod(p, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"))
			c.Close()
		}
	}()
	return p
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
