package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox/docker/guard"
)

// guardOptions is everything quavon docker-guard was asked for.
type guardOptions struct {
	*program

	Listen, Upstream string
	Images           string
	Runtimes         []string
	Group            string
	// Check asks a guard instead of being one.
	Check bool
}

const guardLong = `Stand between a runner and the socket of a Docker engine.

Whoever can write to an engine's socket is root on the host. The guard listens on a
second socket and lets through only what the docker backend does: containers of the
runtimes named here, made of images in the lock, without network, host paths,
devices, privileges or namespaces of the host, with quavon's labels. Everything
else is refused and logged, and answers show quavon's own objects only. It forwards
nothing as it came: every request is checked and written anew.

Give the runner the second socket and never the first. The lock is read at the
start: restart the guard when it changes. --check asks the guard at --listen whether the
engine answers behind it, as health checks of containers do.`

const guardExample = `  quavon docker-guard --listen /run/quavon/docker.sock --group 12345
  DOCKER_HOST=unix:///run/quavon/docker.sock quavon run --backend docker-runsc --image scanners -- true`

func newDockerGuard(p *program) *cobra.Command {
	o := &guardOptions{program: p}
	cmd := &cobra.Command{
		Use:     "docker-guard --listen SOCKET",
		Short:   "Let a runner use a Docker engine without being root on its host",
		Long:    guardLong,
		Example: guardExample,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			if o.Check {
				return checkGuard(cmd.Context(), o.Listen)
			}
			return runGuard(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "socket to make for the runner")
	f.BoolVar(&o.Check, "check", false, "ask the running guard whether it works, and end: exit code 0 or 1")
	f.StringVar(&o.Upstream, "upstream", "", "the engine's socket (default: as DOCKER_HOST and the Docker context say)")
	f.StringVar(&o.Images, "images", "", "image lock (default: "+lock.EnvFile+", else "+lock.DefaultName+")")
	f.StringArrayVar(&o.Runtimes, "runtime", []string{"runsc"}, "runtime that containers may have (repeatable)")
	f.StringVar(&o.Group, "group", "", "id of the group that may use the new socket (default: only its owner)")
	return cmd
}

func (o *guardOptions) check() error {
	if o.Listen == "" {
		return fault.New("--listen is missing", "name the socket to make: --listen /run/quavon/docker.sock")
	}
	if _, err := strconv.ParseUint(o.Group, 10, 31); o.Group != "" && err != nil {
		return fault.New(fmt.Sprintf("--group %q is no group id", o.Group), "write a number")
	}
	return nil
}

// runGuard serves until it is interrupted.
func runGuard(ctx context.Context, o *guardOptions) error {
	upstream := strings.TrimPrefix(o.Upstream, "unix://")
	if upstream == "" {
		host, err := o.findEngine()
		if err != nil {
			return err
		}
		upstream = host.Path()
	}
	l, err := o.guardLock()
	if err != nil {
		return err
	}
	listener, err := listenGuard(o.Listen, upstream, o.Group)
	if err != nil {
		return err
	}
	if slices.Contains(o.Runtimes, "runc") {
		o.Log.Warn("runc does not isolate: whoever uses the guard is as good as root on this host")
	}
	_, _ = fmt.Fprintf(o.IO.ErrOut, "guarding %s on %s: runtimes %s, %d images\n",
		upstream, o.Listen, strings.Join(o.Runtimes, ", "), len(l.Images))
	return guard.New(guard.Config{Upstream: upstream, Runtimes: o.Runtimes, Lock: l, Log: o.Log}).Serve(ctx, listener)
}

func (o *guardOptions) guardLock() (*lock.File, error) {
	if o.Images != "" {
		return lock.Read(o.Images)
	}
	l, err := o.readLock()
	if err == nil && l == nil {
		err = fault.New("there is no image lock, and so no image that could be used", "name it with --images, or run `quavon build images`")
	}
	return l, err
}

// listenGuard makes the socket, in place of one that nobody answers on.
func listenGuard(path, upstream, group string) (net.Listener, error) {
	hint := "name another socket with --listen, or make its directory writable for you"
	if same(path, upstream) {
		return nil, fault.New("--listen and the engine's socket are the same", hint)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fault.New("something answers on "+path+" already", "stop it, or name another socket with --listen")
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, fault.Wrap(err, "remove the dead socket "+path, hint)
		}
	}
	// Nobody may connect before the group is set.
	mask := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(mask)
	if err != nil {
		return nil, fault.Wrap(err, "listen on "+path, hint)
	}
	if group == "" {
		return l, nil
	}
	gid, _ := strconv.Atoi(group) // checked
	if err := errors.Join(os.Chown(path, -1, gid), os.Chmod(path, 0o660)); err != nil {
		return nil, fault.Wrap(errors.Join(err, l.Close()), "give "+path+" to group "+group, "run as root, or as a member of the group")
	}
	return l, nil
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return a == b || errX == nil && errY == nil && x.Mode()&fs.ModeSocket != 0 && os.SameFile(x, y)
}
