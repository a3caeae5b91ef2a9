package weak

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
	"github.com/quavon/quavon/runner/smoke"
)

// Suite is a smoke test that takes an arm's sandboxes for those of like, with a world of
// its own. image is as in smoke.For. What an arm needs and can be made here is made in the
// directory dir, which everybody must get to; the rest has to be in the lab. release ends
// all of it.
func (a Arm) Suite(l Lab, like *runner.Runner, image, dir string) (s *smoke.Suite, release func() error, err error) {
	var ends []func() error
	release = func() error {
		var errs []error
		for _, end := range slices.Backward(ends) {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	world, err := smoke.NewWorld(strings.ToLower(rand.Text()[:8]))
	if err != nil {
		return nil, release, err
	}
	ends = append(ends, world.Close)
	l.HostNetns = world.Path()
	for _, need := range a.Needs {
		end, err := l.makeNeed(need, like, world, dir)
		if err != nil {
			return nil, release, fmt.Errorf("make %s: %w", need, err)
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	if l.Dial == nil {
		l.Dial = into(world)
	}
	r, err := a.Runner(l, like)
	if err != nil {
		return nil, release, err
	}
	ends = append(ends, func() error { r.Close(); return nil })
	s = smoke.For(like, image)
	s.Runner, s.World, s.Locate = r, world, located
	s.WithDoor = func(d runner.Door) smoke.Runner { return r.WithDoor(d) }
	return s, release, nil
}

// located lists the processes of a sandbox by its control group.
func located(_ context.Context, id string) ([]int, error) { return cgroup.Detect().Group(id).Procs() }

// into connects to a world, whatever the address.
func into(w *smoke.World) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (c net.Conn, err error) {
		err = w.Inside(func() error { c, err = net.Dial("tcp", "127.0.0.1:80"); return err })
		return c, err
	}
}

// Makes says whether a need is made by Suite.
func (n Need) Makes() bool {
	return slices.Contains([]Need{NeedSetuid, NeedDevice, NeedDir, NeedSocket, NeedHost, NeedSecret}, n)
}

func (l *Lab) makeNeed(n Need, like *runner.Runner, w *smoke.World, dir string) (end func() error, err error) {
	switch n {
	case NeedDir:
		l.Dir = filepath.Join(dir, "shared")
		return nil, errors.Join(os.Mkdir(l.Dir, 0o700), unix.Chmod(l.Dir, 0o777))
	case NeedDevice: // the loop devices' control
		l.Device = filepath.Join(dir, "device")
		return nil, errors.Join(unix.Mknod(l.Device, unix.S_IFCHR, int(unix.Mkdev(10, 237))), unix.Chmod(l.Device, 0o666))
	case NeedSetuid:
		l.Setuid, err = setuidCopy(like.Guest, filepath.Join(dir, "setuid"))
		return nil, err
	case NeedSocket:
		l.Socket = filepath.Join(dir, "socket", "docker.sock")
		return greet(l.Socket)
	case NeedSecret:
		l.Secret = smoke.Secret()
	case NeedNetns:
		if l.Netns == "" && l.Net != nil {
			l.Netns, err = l.Net(w)
		}
	case NeedRunc, NeedShim, NeedHost:
	}
	return nil, err
}

// setuidCopy is a copy of a program that is root's and has the setuid bit, alone in a
// directory.
func setuidCopy(program, dir string) (string, error) {
	in, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer in.Close()
	path := filepath.Join(dir, filepath.Base(program))
	if err := errors.Join(os.Mkdir(dir, 0o700), unix.Chmod(dir, 0o755)); err != nil {
		return "", err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return path, errors.Join(err, out.Close(), unix.Chmod(path, 0o4755))
}

// greet listens on a socket, alone in its directory, and answers whoever comes as an
// engine does.
func greet(path string) (end func() error, err error) {
	dir := filepath.Dir(path)
	if err := errors.Join(os.Mkdir(dir, 0o700), unix.Chmod(dir, 0o755)); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK") // who hangs up misses it
			_ = c.Close()
		}
	}()
	return l.Close, unix.Chmod(path, 0o666)
}
