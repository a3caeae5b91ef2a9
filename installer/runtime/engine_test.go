package runtime

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/test/need"
)

// answers are those of an engine that can't be had here, as others have seen them.
type answers struct {
	info map[string]any
	// podman has a path of its own.
	podman bool
	// containers by the runtime they run with.
	containers map[string]string
}

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.52")
	id, one := strings.CutPrefix(r.URL.Path, "/containers/")
	switch {
	case r.URL.Path == "/v1/libpod/_ping" && a.podman:
	case r.URL.Path == "/info":
		_ = json.NewEncoder(w).Encode(a.info)
	case r.URL.Path == "/containers/json":
		var list []map[string]any
		for name := range a.containers {
			list = append(list, map[string]any{"Id": name, "Names": []string{"/" + name}})
		}
		_ = json.NewEncoder(w).Encode(append(list, map[string]any{"Id": "gone", "Names": []string{"/gone"}}))
	case one && a.containers[strings.TrimSuffix(id, "/json")] != "":
		_ = json.NewEncoder(w).Encode(map[string]any{"HostConfig": map[string]any{"Runtime": a.containers[strings.TrimSuffix(id, "/json")]}})
	default: // a path with a version among them: the ranges of the two don't meet
		http.NotFound(w, r)
	}
}

func with(info map[string]any, more ...any) map[string]any {
	all := map[string]any{"ID": "an-engine", "OperatingSystem": "Debian GNU/Linux 12 (bookworm)", "DockerRootDir": "/var/lib/docker"}
	for k, v := range info {
		all[k] = v
	}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}

// TestOtherEngines covers what the installer does on DJ-17, DJ-20, DK-01, DK-02, DK-05,
// DK-06, DK-09 and GV-09: it says why this engine can't be given gVisor, and touches no
// daemon.json, or it uses what is registered.
func TestOtherEngines(t *testing.T) {
	t.Parallel()
	noexec := noexecDir(t)
	runsc := writeRunsc(t, t.TempDir(), program(version("x")))
	entry := func(path string, args ...string) map[string]any {
		return map[string]any{Name: map[string]any{"path": path, "runtimeArgs": args}}
	}
	for name, c := range map[string]struct {
		answers
		want, hint string // want is "" when what is registered is used
	}{
		"DJ-20 snap":           {answers{info: with(nil, "DockerRootDir", "/var/snap/docker/common/var-lib-docker")}, "snap", "docker-ce"},
		"DK-02 Docker Desktop": {answers{info: with(nil, "OperatingSystem", "Docker Desktop")}, "Docker Desktop", "docker context use default"},
		"DK-05 Podman":         {answers{info: with(nil, "DockerRootDir", "/var/lib/containers/storage"), podman: true}, "is Podman", "DOCKER_HOST"},
		"DK-06 rootless":       {answers{info: with(nil, "SecurityOptions", []string{"name=seccomp,profile=builtin", "name=rootless"})}, "rootless", "--backend runsc"},
		"DK-06 rootless more":  {answers{info: with(nil, "SecurityOptions", []string{"name=rootless,x=y"})}, "rootless", "--backend runsc"},
		"DK-09 a machine's":    {answers{info: with(nil)}, "the dockerd behind the socket can't be told", "docs/install.md"},
		"DJ-17 noexec":         {answers{info: with(nil, "DockerRootDir", noexec, "Runtimes", entry(runsc, "--debug"))}, "mounted noexec", "without runtimeArgs"},
		"DJ-17 no arguments":   {answers{info: with(nil, "DockerRootDir", noexec, "Runtimes", entry(runsc))}, "", ""},
		"registered by others": {answers{info: with(nil, "Runtimes", entry(runsc, "--platform=systrap", "--debug"))}, "", ""},
		"registered nowhere":   {answers{info: with(nil, "Runtimes", entry("/no/such/runsc"))}, "where there is none", "put it there"},
		"GV-09 weak":           {answers{info: with(nil, "Runtimes", entry(runsc, "--network=host"))}, "weakens", "under another name"},
	} {
		r := &Runtime{
			Target: &phase.Target{Sandbox: true, Backend: Backend, Socket: dockertest.Fake(t, c.answers)}, host: hostWith(t),
			DaemonJSON: filepath.Join(t.TempDir(), "daemon.json"),
		}
		if c.want == "" || strings.HasPrefix(name, "registered") || strings.HasPrefix(name, "GV") || strings.HasPrefix(name, "DJ-17") {
			r.host = hostWith(t, process{pid: 7, engine: "an-engine", root: c.info["DockerRootDir"].(string)})
		}
		changes, err := r.Plan(t.Context())
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.Hint(err), c.hint)):
			t.Errorf("%s: %v (%s), want %q (%q)", name, err, fault.Hint(err), c.want, c.hint)
		case c.want == "" && (err != nil || len(changes) != 1 || changes[0].Action != phase.Check || !strings.Contains(changes[0].Summary, "used as it is")):
			t.Errorf("%s: %v %v", name, changes, err)
		}
		if _, err := os.Lstat(r.DaemonJSON); err == nil {
			t.Errorf("%s: there is a daemon.json", name)
		}
	}
}

func noexecDir(t *testing.T) string {
	t.Helper()
	need.That(t, os.Geteuid() == 0, "root, to mount")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestNoEngine(t *testing.T) {
	t.Parallel()
	for socket, want := range map[string]string{"": "there is no Docker engine", filepath.Join(t.TempDir(), "none"): "no such file"} {
		r := &Runtime{Target: &phase.Target{Sandbox: true, Backend: Backend, Socket: socket}}
		if _, err := r.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) || fault.Hint(err) == "" {
			t.Errorf("%q: %v", socket, err)
		}
	}
}

// TestByFlag covers case DJ-02: a runtime that dockerd has by one of its flags is used as
// it is, even where it is the path that would be registered.
func TestByFlag(t *testing.T) {
	t.Parallel()
	lib := t.TempDir()
	runsc := writeRunsc(t, filepath.Join(lib, "runsc"), program(version("x")))
	a := answers{info: with(nil, "Runtimes", map[string]any{Name: map[string]any{"path": runsc}})}
	r := &Runtime{
		Target: &phase.Target{Sandbox: true, Backend: Backend, Socket: dockertest.Fake(t, a)}, Lib: lib, DaemonJSON: filepath.Join(lib, "none.json"),
		host: hostWith(t, process{pid: 7, engine: "an-engine", root: "/var/lib/docker"}),
	}
	leave(t, r.host.proc(7, "cmdline"), "dockerd\x00--add-runtime\x00runsc="+runsc+"\x00")
	changes, err := r.Plan(t.Context())
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0].Summary, "used as it is") {
		t.Error(changes, err)
	}
}

// TestWay covers case GV-06: runsc starts itself again as nobody, who must get there.
func TestWay(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	r := &Runtime{Lib: filepath.Join(base, "a", "lib")}
	path := writeRunsc(t, filepath.Join(r.Lib, "runsc-x"), program(version("x")))
	for _, err := range []error{os.Symlink("runsc-x", r.link()), os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := &daemon{pid: os.Getpid()}
	p := &plan{daemon: d, version: "runsc-x"}
	if err := r.check(t.Context(), p); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(base, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.check(t.Context(), p); err == nil || fault.Hint(err) != "chmod o+x "+filepath.Join(base, "a") {
		t.Error(err)
	}
	// A dockerd in a container has another file there, or none.
	elsewhere := hostWith(t, process{pid: 7})
	leave(t, elsewhere.proc(7, filepath.Join("root", path)), "another")
	if err := (&daemon{host: elsewhere, pid: 7}).sees(path); err == nil || !strings.Contains(err.Error(), "in a container") {
		t.Error(err)
	}
}

// TestUnused: the runtime isn't taken from those that run on it.
func TestUnused(t *testing.T) {
	t.Parallel()
	a := answers{containers: map[string]string{"web": "runc", "job": Name}}
	d := &daemon{engine: engine{dockertest.Fake(t, a)}}
	listed := engineInfo{Runtimes: map[string]registered{Name: {Path: "/x"}}}
	err := d.unused(t.Context(), listed)
	if err == nil || !strings.Contains(err.Error(), "containers run with runsc: job") || fault.Hint(err) != "`docker stop job`" {
		t.Error(err)
	}
	delete(a.containers, "job")
	if err := d.unused(t.Context(), listed); err != nil {
		t.Error(err)
	}
}

// process is one of a host's, by the files that the kernel has of it.
type process struct {
	pid               int
	comm, exe, cgroup string // dockerd's, when they are ""
	uid               int
	engine, root      string
}

// hostWith is a host's root directory with processes.
func hostWith(t *testing.T, all ...process) host {
	t.Helper()
	dir := t.TempDir()
	for _, p := range append(all, process{pid: 1, comm: "init", exe: "/sbin/init"}) {
		at := filepath.Join(dir, "proc", strconv.Itoa(p.pid))
		if p.comm == "" {
			p.comm = "dockerd"
		}
		if p.exe == "" {
			p.exe = "/usr/bin/dockerd"
		}
		id := strconv.Itoa(p.uid)
		leave(t, filepath.Join(at, "comm"), p.comm+"\n")
		leave(t, filepath.Join(at, "cmdline"), p.exe+"\x00-H\x00fd://\x00")
		leave(t, filepath.Join(at, "cgroup"), p.cgroup)
		leave(t, filepath.Join(at, "status"), "Name:\t"+p.comm+"\nUid:\t"+id+"\t0\t0\t0\n")
		leave(t, filepath.Join(at, "root", p.root, "engine-id"), p.engine)
		if err := os.Symlink(p.exe, filepath.Join(at, "exe")); err != nil {
			t.Fatal(err)
		}
	}
	return host(dir)
}

func leave(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
