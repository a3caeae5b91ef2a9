package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// daemon is the dockerd that the checks of its configuration are about.
type daemon struct {
	// args are its flags; from says whose they are, "" when no dockerd is known.
	args []string
	from string
	// pid is 0 for one that doesn't run. root is where its files are seen from here,
	// "" when it shares this process's mounts.
	pid  int
	root string
}

// errNotDockerd says that what answers is another kind of engine, which has no
// daemon.json.
var errNotDockerd = errors.New("what listens at the engine's socket is Podman, which has no daemon.json")

// dockerd finds the one that listens at the engine's socket, of which a host may have
// several; when nothing does, the one that would be started.
func (c Config) dockerd(ctx context.Context) (daemon, error) {
	socket, _, err := c.Socket()
	if err != nil {
		return c.dockerUnit(ctx)
	}
	pid, err := c.Host.Peer(ctx, socket)
	if err != nil {
		return c.dockerUnit(ctx) // it doesn't run, or isn't this user's to ask
	}
	if pid == 0 {
		return daemon{}, fault.New("the engine behind "+socket+" runs outside of this container, where its settings can't be seen",
			"run the doctor on the host")
	}
	argv := c.argv(pid)
	if pid == 1 && filepath.Base(argv[0]) != "dockerd" {
		return c.activated(ctx)
	}
	switch name := filepath.Base(argv[0]); name {
	case "dockerd":
		return c.running(pid, argv), nil
	case "podman":
		return daemon{}, errNotDockerd
	default:
		return daemon{}, fault.New(fmt.Sprintf("what listens at %s is %q (process %d): which dockerd is behind it isn't known", socket,
			name, pid), "name the engine's own socket: DOCKER_HOST=unix:///PATH")
	}
}

// activated is the dockerd that systemd made the socket for.
func (c Config) activated(ctx context.Context) (daemon, error) {
	out, err := c.Host.Run(ctx, "systemctl", "show", "--property=MainPID", "--value", "docker.service")
	if err != nil {
		return daemon{}, fmt.Errorf("systemd listens at the engine's socket, and doesn't say for whom: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return daemon{}, fmt.Errorf("systemctl's answer %q: %w", out, err)
	}
	if pid == 0 {
		return c.dockerUnit(ctx)
	}
	return c.running(pid, c.argv(pid)), nil
}

func (c Config) running(pid int, argv []string) daemon {
	d := daemon{args: argv[1:], from: fmt.Sprintf("dockerd, process %d", pid), pid: pid}
	own, err1 := c.Host.Link("/proc/self/ns/mnt")
	its, err2 := c.Host.Link(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err1 == nil && err2 == nil && own != its {
		d.root = fmt.Sprintf("/proc/%d/root", pid)
	}
	return d
}

// argv has at least one element.
func (c Config) argv(pid int) []string {
	data, _ := c.Host.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // one that ended has no name
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// pathOf is a process's PATH, "" when it can't be read.
func (c Config) pathOf(pid int) string {
	data, _ := c.Host.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // its own user's or root's to read
	for entry := range strings.SplitSeq(string(data), "\x00") {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			return value
		}
	}
	return ""
}

// dockerUnit is the dockerd that systemd would start.
func (c Config) dockerUnit(ctx context.Context) (daemon, error) {
	unit, err := c.Host.Run(ctx, "systemctl", "cat", "docker.service")
	if err != nil {
		return daemon{}, nil //nolint:nilerr // without systemd, or a unit, none is known
	}
	var d daemon
	for line := range strings.Lines(unit) {
		// The last ExecStart counts; an empty one before it is a reset.
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok && value != "" {
			d.args, d.from = strings.Fields(value)[1:], "docker.service"
		}
	}
	return d, nil
}

func flagOf(args []string, name string) string {
	if all := dockerd.Flags(args, name); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}
