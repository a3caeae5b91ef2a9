package host

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/state"
)

// house is a host in namespaces of its own, with a copy of /etc and nothing in the
// places that administrators fill.
type house struct {
	*testing.T

	engine *exec.Cmd
	// dataRoot is the engine's.
	dataRoot string
}

// TestFixesInside is the part of TestFixes that is made inside of a state's namespaces.
func TestFixesInside(t *testing.T) {
	name := os.Getenv(envCase)
	if name == "" {
		return // TestFixes starts it
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // whoever wanted to know is gone
	}()
	i := slices.IndexFunc(states(), func(s hostState) bool { return s.code+"-"+s.name == name })
	if i < 0 {
		t.Fatalf("there is no state %q", name)
	}
	s := states()[i]
	h := &house{T: t, dataRoot: "/srv/docker"}
	h.build(s.userns)
	defer h.stopEngine()
	s.make(h)
	found := h.check(s.code)
	t.Logf("before: %s", whole(found))
	if found.State != doctor.Fail && found.State != doctor.Warn {
		t.Fatal("it doesn't fail")
	}
	if s.first != nil {
		s.first(h, found)
	}
	if !s.byHand {
		h.follow(found.Fix, s.instead)
	}
	if s.then != nil {
		s.then(h, found)
	}
	found = h.check(s.code)
	t.Logf("after: %s", whole(found))
	if found.State != doctor.Pass {
		t.Error("what the fix says was done, and the check doesn't pass")
	}
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// build covers what a state changes. The programs stay the machine's.
func (h *house) build(userns bool) {
	h.Helper()
	dir := os.Getenv(envHouse)
	h.must(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	if !userns { // else there is no pid namespace, whose processes it would show
		h.must(unix.Mount("proc", "/proc", "proc", 0, ""))
	}
	h.must(unix.Mount("house", dir, "tmpfs", 0, "mode=0755"))
	h.run("cp", "-a", "/etc", dir)
	for _, p := range []string{"/etc", "/run", "/opt", "/srv", "/var/lib", "/usr/local/bin", "/usr/local/lib"} {
		h.must(os.MkdirAll(filepath.Join(dir, p), 0o755))
		h.must(unix.Mount(filepath.Join(dir, p), p, "", unix.MS_BIND, ""))
	}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		for _, prefix := range []string{"DOCKER_", "COMPOSE_", "VALKEY_"} {
			if strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "QUAVON_") && !strings.HasPrefix(name, "QUAVON_FIX_") {
				h.must(os.Unsetenv(name))
			}
		}
	}
	engine := os.Getenv(envEngine)
	h.Setenv("PATH", engine+"/usr/sbin:"+engine+"/usr/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	h.Setenv("HOME", "/srv/home")
	for _, d := range []string{"/srv/home", "/srv/work", "/var/lib/quavon", "/opt/quavon"} {
		h.must(os.MkdirAll(d, 0o755))
	}
}

// check makes one check of this host, as `quavon doctor` would with its working
// directory in /opt/quavon.
func (h *house) check(code string) doctor.Finding {
	h.Helper()
	c := Config{
		Host: Real{}, Runsc: runsc.Find, StateDir: state.Default, CheckState: state.Check,
		Socket: func() (path, from string, err error) {
			e, err := docker.Find(docker.Surroundings{Env: os.Getenv, Home: os.Getenv("HOME")})
			return e.Path(), e.From, err
		},
		EnvFile: func() (string, bool) { return envPath, false },
	}
	one, err := doctor.Find(Checks(c), code)
	h.must(err)
	one = alone(one)
	one.Timeout = 2 * time.Minute
	return doctor.Run(h.Context(), []*doctor.Check{one}, nil).Results[0].Finding
}

// follow types what a fix says, or what it says instead, in one shell, whose variables
// are this process's from then on.
func (h *house) follow(fix string, other bool) {
	h.Helper()
	commands, instead := typed(fix)
	if other {
		commands = instead
	}
	if len(commands) == 0 {
		return
	}
	const env = "/run/env"
	cmd := exec.CommandContext(h.Context(), "sh", "-e", "-c", strings.Join(append(commands, "env -0 >"+env), "\n"))
	cmd.Dir = "/srv/work"
	out, err := cmd.CombinedOutput()
	h.Logf("typed: %q\n%s", commands, out)
	h.must(err)
	data, err := os.ReadFile(env)
	h.must(err)
	left := map[string]bool{}
	for entry := range strings.SplitSeq(strings.TrimRight(string(data), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		left[name] = true
		h.must(os.Setenv(name, value))
	}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !left[name] {
			h.must(os.Unsetenv(name))
		}
	}
}

func (h *house) run(argv ...string) string {
	h.Helper()
	out, err := exec.CommandContext(h.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		h.Fatalf("%q: %v %s", argv, err, out)
	}
	return string(out)
}

// write makes a file, and the directories on its way.
func (h *house) write(path, text string, mode os.FileMode) {
	h.Helper()
	h.must(os.MkdirAll(filepath.Dir(path), 0o755))
	h.must(os.WriteFile(path, []byte(text), mode))
	h.must(os.Chmod(path, mode))
}

// edit changes a file as somebody with an editor would.
func (h *house) edit(path string, change func(string) string) {
	h.Helper()
	data, err := os.ReadFile(path)
	h.must(err)
	h.must(os.WriteFile(path, []byte(change(string(data))), 0o600))
}

func (h *house) listen(path string) {
	h.Helper()
	l, err := new(net.ListenConfig).Listen(h.Context(), "unix", path)
	h.must(err)
	h.Cleanup(func() { _ = l.Close() })
}

const socketFile = "/run/docker.sock"

// startEngine starts a real dockerd with the daemon.json that there is.
func (h *house) startEngine() {
	h.Helper()
	log, err := os.Create("/srv/dockerd.log")
	h.must(err)
	defer log.Close()
	h.engine = exec.Command("dockerd", "-H", "unix://"+socketFile, "--data-root", h.dataRoot, "--exec-root", "/run/docker-exec", "--pidfile",
		"/run/dockerd.pid", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
		"--storage-driver=vfs")
	h.engine.Stdout, h.engine.Stderr = log, log
	h.must(h.engine.Start())
	end := time.Now().Add(2 * time.Minute)
	for time.Now().Before(end) {
		if a, err := (Real{}).Get(h.Context(), socketFile, "/_ping"); err == nil && a.Status == http.StatusOK {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	h.Fatalf("dockerd doesn't answer:\n%s", text)
}

func (h *house) stopEngine() {
	h.Helper()
	if h.engine == nil {
		return
	}
	h.must(h.engine.Process.Signal(syscall.SIGTERM))
	var ended *exec.ExitError
	if err := h.engine.Wait(); err != nil && !errors.As(err, &ended) {
		h.Error(err)
	}
	h.engine = nil
}
