package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
)

// host is the root directory of the host's own files, "" for /.
type host string

func (h host) path(elem ...string) string {
	return filepath.Join("/", string(h), filepath.Join(elem...))
}

func (h host) proc(pid int, name string) string { return h.path("proc", strconv.Itoa(pid), name) }

// manager is what starts, reloads and restarts a dockerd. The zero one is nobody: a
// dockerd that somebody started by hand is theirs.
type manager struct{ kind, service string }

// Kinds of managers.
const (
	systemd = "systemd"
	openRC  = "OpenRC"
)

// manageTime bounds a manager's command. It is more than what systemd waits.
const manageTime = 2 * time.Minute

// unitForm is the unit that a process is in, as the kernel keeps it for systemd.
var unitForm = regexp.MustCompile(`(?m)^(?:0:|\d+:name=systemd):(?:/[^/\n]+)*/([A-Za-z0-9@._:-]+\.service)(?:/[^\n]*)?$`)

// manager finds out who manages a dockerd, by what a booted systemd or OpenRC leaves in
// /run and by who the process belongs to. Either may be there and not have started it.
func (h host) manager(pid int) manager {
	if h.isDir("run/systemd/system") { // as sd_booted(3) does
		groups, err := os.ReadFile(h.proc(pid, "cgroup"))
		if m := unitForm.FindSubmatch(groups); err == nil && m != nil {
			return manager{systemd, string(m[1])}
		}
		return manager{}
	}
	if _, err := os.Stat(h.path("run/openrc/softlevel")); err != nil {
		return manager{}
	}
	_, err := os.Stat(h.path("run/openrc/started/docker"))
	noted, readErr := os.ReadFile(h.path("run/docker.pid"))
	if err == nil && readErr == nil && strings.TrimSpace(string(noted)) == strconv.Itoa(pid) {
		return manager{openRC, "docker"}
	}
	return manager{}
}

func (h host) isDir(path string) bool {
	info, err := os.Stat(h.path(path))
	return err == nil && info.IsDir()
}

// argv is the manager's command, nil for nobody's.
func (m manager) argv(verb string) []string {
	switch m.kind {
	case systemd:
		return []string{"systemctl", verb, m.service}
	case openRC:
		return []string{"rc-service", m.service, verb}
	}
	return nil
}

// run runs a verb; an error has what the manager said.
func (m manager) run(ctx context.Context, verb string) error {
	argv := m.argv(verb)
	if argv == nil {
		return fault.New("no service manager of this host runs dockerd", verb+" it by hand, and install again")
	}
	bound, cancel := context.WithTimeoutCause(ctx, manageTime, errors.New("it did not end in time"))
	defer cancel()
	out, err := exec.CommandContext(bound, argv[0], argv[1:]...).CombinedOutput()
	switch {
	case err == nil:
		return nil
	case bound.Err() != nil:
		return fault.Wrap(context.Cause(bound), strings.Join(argv, " "), m.log())
	}
	return fault.New(fmt.Sprintf("%s: %s (%v)", strings.Join(argv, " "), lastLine(out), err), m.log())
}

// log says where dockerd's own words are.
func (m manager) log() string {
	switch m.kind {
	case systemd:
		return "see `journalctl -u " + m.service + "`"
	case openRC:
		return "see /var/log/docker.log"
	}
	return "see dockerd's log"
}

// mainPID is the process of systemd's unit of Docker, 0 for none.
func (h host) mainPID(ctx context.Context) int {
	if !h.isDir("run/systemd/system") {
		return 0
	}
	bound, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("systemd did not answer in time"))
	defer cancel()
	out, err := exec.CommandContext(bound, "systemctl", "show", "--property=MainPID", "--value", "docker.service").Output()
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out))) // what is no number is nobody's
	return pid
}

// isDockerd says that a process is root's dockerd. Anyone can call a process so, but
// not have root run it under that name: what is learnt of a dockerd, its program and its
// file, is used as root.
func (h host) isDockerd(pid int) bool {
	if pid <= 0 {
		return false
	}
	name, err := os.ReadFile(h.proc(pid, "comm"))
	if err != nil || strings.TrimSpace(string(name)) != "dockerd" {
		return false
	}
	exe, err := os.Readlink(h.proc(pid, "exe"))
	if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "dockerd" {
		return false
	}
	return h.ofRoot(pid)
}

func (h host) ofRoot(pid int) bool {
	status, err := os.ReadFile(h.proc(pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			fields := strings.Fields(ids)
			return len(fields) > 0 && fields[0] == "0" // the real one: a program may be setuid
		}
	}
	return false
}

// onlyDockerd is the one dockerd there is.
func (h host) onlyDockerd() (int, error) {
	var all []int
	entries, err := os.ReadDir(h.path("proc"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && h.isDockerd(pid) {
			all = append(all, pid)
		}
	}
	if len(all) != 1 {
		return 0, fault.New(fmt.Sprintf("the dockerd behind the socket can't be told: %d processes of that name are seen here", len(all)),
			"register runsc by hand, as docs/install.md says, reload dockerd, and install again")
	}
	return all[0], nil
}
