package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/installer/phase"
)

// TestManager: who manages a dockerd, by a host's files as the service managers and the
// kernel write them.
func TestManager(t *testing.T) {
	t.Parallel()
	const (
		booted  = "run/systemd/system/"
		v1      = "12:pids:/system.slice/docker.service\n1:name=systemd:/system.slice/docker.service\n0::/system.slice/docker.service\n"
		session = "0::/user.slice/user-0.slice/session-4.scope\n"
		openrc  = "run/openrc/softlevel=default"
		started = "run/openrc/started/docker="
	)
	for name, c := range map[string]struct {
		cgroup string
		files  []string
		want   manager
		reload string
	}{
		"systemd":                       {"0::/system.slice/docker.service\n", []string{booted}, manager{systemd, "docker.service"}, "systemctl reload docker.service"},
		"systemd, version 1":            {v1, []string{booted}, manager{systemd, "docker.service"}, "systemctl reload docker.service"},
		"a unit of another name":        {"0::/system.slice/dockerd-2.service\n", []string{booted}, manager{systemd, "dockerd-2.service"}, "systemctl reload dockerd-2.service"},
		"below its unit":                {"0::/system.slice/docker.service/main\n", []string{booted}, manager{systemd, "docker.service"}, "systemctl reload docker.service"},
		"systemd in a machine's slice":  {"0::/machine.slice/x.scope/system.slice/docker.service\n", []string{booted}, manager{systemd, "docker.service"}, "systemctl reload docker.service"},
		"systemd, by hand":              {session, []string{booted}, manager{}, ""},
		"systemd, a name with a flag":   {"0::/system.slice/--root=x docker.service\n", []string{booted}, manager{}, ""},
		"systemd's files, not booted":   {v1, nil, manager{}, ""},
		"systemd and OpenRC's files":    {session, []string{booted, openrc, started, "run/docker.pid=7"}, manager{}, ""},
		"OpenRC":                        {"0::/openrc.docker\n", []string{openrc, started, "run/docker.pid=7\n"}, manager{openRC, "docker"}, "rc-service docker reload"},
		"OpenRC, by hand":               {"0::/\n", []string{openrc, "run/docker.pid=7"}, manager{}, ""},
		"OpenRC, another dockerd":       {"0::/\n", []string{openrc, started, "run/docker.pid=77"}, manager{}, ""},
		"OpenRC, no number":             {"0::/\n", []string{openrc, started}, manager{}, ""},
		"OpenRC installed, not started": {"0::/\n", []string{started, "run/docker.pid=7"}, manager{}, ""},
		"none":                          {"0::/\n", nil, manager{}, ""},
		"none, in a container":          {"", nil, manager{}, ""},
	} {
		h := hostWith(t, process{pid: 7, cgroup: c.cgroup})
		for _, f := range c.files {
			path, text, _ := strings.Cut(f, "=")
			if strings.HasSuffix(path, "/") {
				path += "private/x"
			}
			leave(t, h.path(path), text)
		}
		got := h.manager(7)
		if got != c.want || strings.Join(got.argv("reload"), " ") != c.reload {
			t.Errorf("%s: %v, %v", name, got, got.argv("reload"))
		}
		if got.log() == "" {
			t.Errorf("%s: no log is named", name)
		}
	}
}

// TestIsDockerd: what is learnt of a dockerd is used as root, so nobody else's process
// is taken for one.
func TestIsDockerd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    process
		want bool
	}{
		"dockerd":                 {process{}, true},
		"replaced by an upgrade":  {process{exe: "/usr/bin/dockerd (deleted)"}, true},
		"a user's":                {process{uid: 1000}, false},
		"a user's, rootless":      {process{uid: 1000, exe: "/home/u/bin/dockerd"}, false},
		"root's by another name":  {process{exe: "/usr/bin/sudo"}, false}, // a user's link called dockerd
		"a name that only begins": {process{comm: "dockerd-x"}, false},
		"podman":                  {process{comm: "podman", exe: "/usr/bin/podman"}, false},
	} {
		c.p.pid = 7
		if got := hostWith(t, c.p).isDockerd(7); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if h := hostWith(t); h.isDockerd(0) || h.isDockerd(8) {
		t.Error("no process is a dockerd")
	}
}

// TestBehind covers case DK-09 and sockets that systemd made: the dockerd behind a socket
// at which another process listens.
func TestBehind(t *testing.T) {
	t.Parallel()
	const root = "/var/lib/docker"
	here := process{pid: 7, engine: "an-engine\n", root: root}
	info := engineInfo{ID: "an-engine", DockerRootDir: root}
	for name, c := range map[string]struct {
		host host
		info engineInfo
		want string // "" for process 7
	}{
		"the only one":         {hostWith(t, here, process{pid: 8, comm: "podman", exe: "/usr/bin/podman"}), info, ""},
		"a user's beside it":   {hostWith(t, here, process{pid: 8, uid: 1000, engine: "an-engine", root: root}), info, ""},
		"none":                 {hostWith(t), info, "0 processes"},
		"only a user's":        {hostWith(t, process{pid: 8, uid: 1000, engine: "an-engine", root: root}), info, "0 processes"},
		"two":                  {hostWith(t, here, process{pid: 8}), info, "2 processes"},
		"into a machine":       {hostWith(t, here), engineInfo{ID: "of a machine", DockerRootDir: root}, "isn't the dockerd that runs here"},
		"that doesn't say":     {hostWith(t, here), engineInfo{DockerRootDir: root}, "isn't the dockerd that runs here"},
		"of another directory": {hostWith(t, here), engineInfo{ID: "an-engine", DockerRootDir: "/srv"}, "isn't the dockerd that runs here"},
	} {
		pid, err := c.host.behind(t.Context(), 99, c.info)
		if c.want == "" && (err != nil || pid != 7) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d, %v", name, pid, err)
		}
	}
}

// TestActivated: systemd listens at the socket, and says which process is behind it.
func TestActivated(t *testing.T) {
	t.Parallel()
	h := hostWith(t, process{pid: 7, engine: "one", root: "/x"}, process{pid: 8, engine: "two", root: "/x"})
	leave(t, h.path("run/systemd/system/x"), "")
	unit(t, "docker.service", "show", "echo 8")
	if pid, err := h.behind(t.Context(), 1, engineInfo{ID: "two", DockerRootDir: "/x"}); err != nil || pid != 8 {
		t.Error(pid, err)
	}
}

// managers is the directory of the stand-ins for systemctl and rc-service, which this
// machine lacks: each runs a file of the unit's and the verb's name.
var managers string

func TestMain(m *testing.M) {
	if dir := os.Getenv("QUAVON_TEST_VICTIM"); dir != "" {
		os.Exit(victim(dir))
	}
	dir, err := os.MkdirTemp("", "quavon-managers-")
	if err == nil {
		managers = dir
		err = errors.Join(
			standIn("systemctl", `case $1 in show) name=$4.show;; *) name=$2.$1;; esac`),
			standIn("rc-service", `name=$1.$2`),
			os.Setenv("PATH", dir+":"+os.Getenv("PATH")),
		)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func standIn(name, find string) error {
	text := "#!/bin/sh\n" + find + "\necho \"$@\" >>" + managers + "/$name.asked\n. " + managers + "/$name\n"
	return os.WriteFile(filepath.Join(managers, name), []byte(text), 0o755)
}

// unit says what a manager does when it is asked for a verb.
func unit(t testing.TB, name, verb, script string) {
	t.Helper()
	leave(t, filepath.Join(managers, name+"."+verb), script+"\n")
}

// asked is how often a manager was asked for a verb.
func asked(t testing.TB, name, verb string) int {
	t.Helper()
	data, _ := os.ReadFile(filepath.Join(managers, name+"."+verb+".asked")) // none is zero
	return strings.Count(string(data), "\n")
}

// TestManagerRun: what the manager says is in the error.
func TestManagerRun(t *testing.T) {
	t.Parallel()
	unit(t, "run.service", "reload", "exit 0")
	unit(t, "run.service", "restart", "echo first; echo 'Job failed.' >&2; exit 3")
	unit(t, "run.service", "stop", "sleep 60")
	m := manager{systemd, "run.service"}
	if err := m.run(t.Context(), "reload"); err != nil {
		t.Error(err)
	}
	if err := m.run(t.Context(), "restart"); err == nil || err.Error() != "systemctl restart run.service: Job failed. (exit status 3)" {
		t.Error(err)
	}
	signal := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signal)
	if err := m.run(ctx, "reload"); !errors.Is(err, signal) {
		t.Error(err)
	}
	if err := (manager{}).run(t.Context(), "restart"); err == nil || !strings.Contains(err.Error(), "no service manager") {
		t.Error(err)
	}
	unit(t, "docker", "reload", "exit 0")
	if err := (manager{openRC, "docker"}).run(t.Context(), "reload"); err != nil {
		t.Error(err)
	}
}

// said is what a phase reported.
type said struct{ lines []string }

func (s *said) Line(text string) { s.lines = append(s.lines, text) }
func (*said) Status(...string)   {}

func (s *said) has(text string) bool {
	return slices.ContainsFunc(s.lines, func(line string) bool { return strings.Contains(line, text) })
}

// TestRevive: a dockerd that ended is started again by who manages it, when the phase
// failed; else it is only said.
func TestRevive(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		kind   string
		how    phase.How
		starts int
		say    string
	}{
		{systemd, phase.Failed, 1, "is started again"},
		{systemd, phase.Uninstall, 0, "there is no dockerd here"},
		{"", phase.Failed, 0, "there is no dockerd here"},
	} {
		name := fmt.Sprintf("revive%d-%s.service", i, strings.ToLower(rand.Text())) // asked for nothing yet
		unit(t, name, "start", "exit 0")
		r := &Runtime{Target: &phase.Target{Socket: filepath.Join(t.TempDir(), "none")}}
		var show said
		act := phase.Act{Name: actReload, Data: map[string]string{"manager": c.kind, "service": name}}
		if err := r.Undo(t.Context(), act, c.how, &show); err != nil || !show.has(c.say) || asked(t, name, "start") != c.starts {
			t.Errorf("%v: %v, %v", c, err, show.lines)
		}
	}
}
