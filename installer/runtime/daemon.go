package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// daemon is the dockerd behind a socket.
type daemon struct {
	socket string
	pid    int
	args   []string
	// exe is its program as this process can run it.
	exe string
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
func findDaemon(ctx context.Context, socket string) (*daemon, error) {
	if socket == "" {
		return nil, fault.New("there is no Docker engine", "install Docker Engine 24 or newer, or use --backend runsc")
	}
	d := &daemon{socket: socket}
	asked, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("the engine did not answer in time"))
	defer cancel()
	pid, err := dockerd.Peer(asked, socket)
	if err != nil {
		return nil, fault.Wrap(err, "reach the Docker engine at "+socket, "start it: `systemctl start docker`")
	}
	if !isDockerd(pid) {
		if pid = mainPID(ctx); !isDockerd(pid) {
			if pid, err = onlyDockerd(); err != nil {
				return nil, err
			}
		}
	}
	d.pid = pid
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, fault.Wrap(err, "look at dockerd", "install as root")
	}
	argv := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	d.args = argv[1:]
	if d.exe, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return nil, fault.Wrap(err, "look at dockerd", "install as root")
	}
	return d, nil
}

// mainPID is the process of systemd's unit, 0 for none.
func mainPID(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", "docker.service").Output()
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out))) // what is no number is nobody's
	return pid
}

func isDockerd(pid int) bool {
	if pid <= 0 {
		return false
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == "dockerd"
}

// onlyDockerd is the one dockerd there is.
func onlyDockerd() (int, error) {
	var all []int
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && isDockerd(pid) {
			all = append(all, pid)
		}
	}
	if len(all) != 1 {
		return 0, fault.New(fmt.Sprintf("the dockerd behind the socket can't be told: %d processes of that name are seen here", len(all)),
			"register runsc by hand, as docs/install.md says, reload dockerd, and install again")
	}
	return all[0], nil
}

// sameRoot refuses a dockerd that sees other files than we do.
func (d *daemon) sameRoot() error {
	ours, err := os.Stat("/")
	if err != nil {
		return err
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/root/.", d.pid))
	if err != nil {
		return fault.Wrap(err, "look at dockerd's files", "install as root")
	}
	if !os.SameFile(ours, theirs) {
		return fault.New("dockerd runs in a container, where a runsc of this host isn't",
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
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", d.pid)); err == nil {
			return filepath.Join(dir, path)
		}
	}
	return "/etc/docker/daemon.json"
}
