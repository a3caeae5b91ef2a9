package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// daemon is the dockerd behind a socket.
type daemon struct {
	engine
	host
	pid  int
	args []string
	// exe is its program as this process can run it.
	exe     string
	manager manager
}

// Times of dockerd.
const (
	answerTime = 10 * time.Second
	loadTime   = 15 * time.Second
	startTime  = 60 * time.Second
	maxAnswer  = 16 << 20
)

// findDaemon asks the socket who listens there. With systemd's sockets that is systemd,
// which knows the rest.
func (h host) findDaemon(ctx context.Context, e engine, info engineInfo) (*daemon, error) {
	d := &daemon{engine: e, host: h}
	asked, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("the engine did not answer in time"))
	defer cancel()
	pid, err := dockerd.Peer(asked, e.socket)
	if err != nil {
		return nil, fault.Wrap(err, "reach the Docker engine at "+e.socket, "start it: `systemctl start docker`")
	}
	if !h.isDockerd(pid) {
		if pid, err = h.behind(ctx, pid, info); err != nil {
			return nil, err
		}
	}
	d.pid = pid
	cmdline, err := os.ReadFile(h.proc(pid, "cmdline"))
	if err != nil {
		return nil, fault.Wrap(err, "look at dockerd", "install as root")
	}
	argv := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	d.args = argv[1:]
	if d.exe, err = os.Readlink(h.proc(pid, "exe")); err != nil {
		return nil, fault.Wrap(err, "look at dockerd", "install as root")
	}
	d.manager = h.manager(pid)
	return d, nil
}

// behind is the dockerd behind a socket on which another process listens: systemd's
// unit, else the only one there is. The engine's own number says whether it is that one:
// a socket may lead into a machine, and the host have a dockerd of its own.
func (h host) behind(ctx context.Context, peer int, info engineInfo) (pid int, err error) {
	if peer == 1 {
		pid = h.mainPID(ctx)
	}
	if !h.isDockerd(pid) {
		if pid, err = h.onlyDockerd(); err != nil {
			return 0, err
		}
	}
	id, err := os.ReadFile(h.proc(pid, filepath.Join("root", info.DockerRootDir, "engine-id")))
	if err != nil || info.ID == "" || strings.TrimSpace(string(id)) != info.ID {
		return 0, fault.New(fmt.Sprintf("the engine at the socket isn't the dockerd that runs here (process %d)", pid),
			"name this host's own engine: DOCKER_HOST=unix:///var/run/docker.sock")
	}
	return pid, nil
}

// sees refuses a dockerd for which a path is another file than for us.
func (d *daemon) sees(path string) error {
	ours, err := os.Stat(path)
	if err != nil {
		return err
	}
	theirs, err := os.Stat(d.proc(d.pid, filepath.Join("root", path)))
	if errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(err, "look at dockerd's files", "install as root")
	}
	if err != nil || !os.SameFile(ours, theirs) {
		return fault.New("dockerd runs in a container, where "+path+" isn't this host's",
			"register runsc where dockerd runs, as docs/install.md says, and install again")
	}
	return nil
}

// configFile is the file that dockerd reads.
func (d *daemon) configFile() string {
	if named := dockerd.Flags(d.args, "config-file"); len(named) > 0 {
		path := named[len(named)-1]
		if filepath.IsAbs(path) {
			return path
		}
		if dir, err := os.Readlink(d.proc(d.pid, "cwd")); err == nil {
			return filepath.Join(dir, path)
		}
	}
	return "/etc/docker/daemon.json"
}
