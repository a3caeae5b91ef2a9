package install_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/sandbox/hostlist"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// life is an installation on its way from nothing to nothing.
type life struct {
	*host
	// quavon is the program in use, next another version of it.
	quavon, next string
	// fresh is the host before, engine its objects, daemon its daemon.json.
	lister *hostlist.Lister
	fresh  hostlist.Snapshot
	daemon string
	// lock is the first installation's.
	lock string
	took []string
}

// TestLifecycle installs, uses, changes, upgrades, rolls back and uninstalls, each by the
// command that an operator types. A step needs those before it.
func TestLifecycle(t *testing.T) {
	l := newLife(t)
	defer func() { t.Log("time for each step:\n" + strings.Join(l.took, "\n")) }()
	l.step("a dry run changes nothing", l.dryRun)
	l.step("install into an empty directory", l.install)
	l.step("the doctor passes QD951 to QD958", l.doctor)
	l.step("a changed .env replaces egress and runner alone", l.registries)
	l.step("a submitted job reaches an allowed registry", func() { l.submit("first") })
	l.step("install again, after a restart, changes nothing", l.again)
	l.step("upgrade to another quavon and image", l.upgrade)
	l.step("roll back", l.rollback)
	l.step("uninstall leaves the host as it was", l.uninstall)
	l.step("another installation leaves the volumes", l.another)
	l.step("purge leaves nothing", l.purge)
}

func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{host: newHost(t)}
	l.quavon, l.next = l.copyBuilt(), l.buildNext()
	l.warmUp()
	l.daemon = l.read(filepath.Join(l.engine, "daemon.json"))
	l.lister = hostlist.New([]string{l.dir, l.lib}, []string{l.quavon, l.next}, []string{l.base})
	l.lister.More = l.objects
	l.fresh = l.lister.Take()
	return l
}

// step runs a part of the test and takes its time; what comes after a failed one is of
// no use.
func (l *life) step(name string, do func()) {
	t, start := l.t, time.Now()
	ok := t.Run(name, func(t *testing.T) {
		l.t = t
		do()
	})
	l.t = t
	l.took = append(l.took, seconds(time.Since(start))+"  "+name)
	if !ok {
		t.FailNow()
	}
}

// copyBuilt copies what make has built: a make beside the test replaces it.
func (l *life) copyBuilt() string {
	l.t.Helper()
	path := l.place("built")
	l.copy(filepath.Join(sandboxtest.Module(l.t), "bin", "quavon"), path)
	return path
}

// place is where quavon is to be in a directory that has the programs beside it.
func (l *life) place(name string) string {
	l.t.Helper()
	dir, bin := filepath.Join(l.base, name), filepath.Join(sandboxtest.Module(l.t), "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		l.t.Fatal(err)
	}
	l.copy(filepath.Join(bin, "quavon-guest"), filepath.Join(dir, "quavon-guest"))
	if err := os.Symlink(filepath.Join(bin, "runsc"), filepath.Join(dir, "runsc")); err != nil {
		l.t.Fatal(err)
	}
	return filepath.Join(dir, "quavon")
}

// buildNext makes another version of quavon.
func (l *life) buildNext() string {
	l.t.Helper()
	path := l.place("next")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path,
		"-ldflags", "-s -w -X github.com/quavon/quavon/commands.Version=v99.0.0", "./cmd/quavon")
	cmd.Dir, cmd.Env = sandboxtest.Module(l.t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// warmUp has the engine make what it makes with its first container.
func (l *life) warmUp() {
	l.t.Helper()
	l.output("sh", "-c", "tar -C sources/box/root -c . | docker import - warm")
	l.docker("run", "--rm", "warm", "/bin/true")
	l.docker("rmi", "warm")
}

// objects are the engine's, but for what its own builder keeps.
func (l *life) objects() []string {
	var all []string
	for kind, args := range map[string]string{
		"container": "ps -a --format {{.Names}}", "network": "network ls --format {{.Name}}",
		"volume": "volume ls --format {{.Name}}", "image": "images --format {{.Repository}}",
	} {
		for line := range strings.Lines(l.docker(strings.Fields(args)...)) {
			all = append(all, kind+" "+strings.TrimSpace(line))
		}
	}
	return all
}

// left is what there is besides what was there before everything, without what fits keep.
func (l *life) left(keep ...string) []string {
	l.t.Helper()
	differs := func() []string {
		return slices.DeleteFunc(hostlist.Diff(l.fresh, l.lister.Take()), func(line string) bool {
			return slices.ContainsFunc(keep, func(k string) bool { return strings.HasPrefix(line, k) })
		})
	}
	d := differs()
	for end := time.Now().Add(2 * time.Minute); len(d) > 0 && time.Now().Before(end); d = differs() {
		time.Sleep(100 * time.Millisecond)
	}
	return d
}

// run types a command of the installation, which must succeed, and returns what it said.
func (l *life) run(args ...string) string {
	l.t.Helper()
	cmd := exec.Command(l.quavon, args...)
	cmd.Dir, cmd.Env = l.dir, l.env
	start := time.Now()
	out, err := cmd.CombinedOutput()
	l.t.Logf("quavon %s: %s\n%s", strings.Join(args, " "), seconds(time.Since(start)), out)
	if err != nil {
		l.t.Fatalf("quavon %s: %v", args[0], err)
	}
	return string(out)
}

func (l *life) says(out string, all ...string) {
	l.t.Helper()
	for _, want := range all {
		if !strings.Contains(out, want) {
			l.t.Errorf("it doesn't say %q", want)
		}
	}
}

// services are the containers of the running services, by service; unwell ones are said
// to be so.
func (l *life) services() (all map[string]string, unwell []string) {
	l.t.Helper()
	all = map[string]string{}
	list := l.docker("ps", "--no-trunc", "--filter", "label=com.docker.compose.project=quavon",
		"--format", `{{.Label "com.docker.compose.service"}} {{.ID}} {{.Status}}`)
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if !strings.Contains(line, "(healthy)") {
			unwell = append(unwell, line)
		}
		all[f[0]] = f[1]
	}
	return all, unwell
}

var allServices = []string{"docker-guard", "sandbox-egress", "sandbox-runner", "valkey"}

// replaces runs something and compares which services have another container after it.
func (l *life) replaces(do func(), want ...string) {
	l.t.Helper()
	before, _ := l.services()
	do()
	after, unwell := l.services()
	if len(unwell) > 0 {
		l.t.Errorf("not healthy: %v", unwell)
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			got = append(got, name)
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(after)), allServices) || !slices.Equal(got, want) {
		l.t.Errorf("services %v, other than before: %v, want %v", slices.Sorted(maps.Keys(after)), got, want)
	}
}

func (l *life) read(path string) string {
	l.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(raw)
}

// finding is a check of the doctor's report.
type finding struct{ Code, State, Message string }

func (l *life) doctor() {
	out := l.output(l.quavon, "doctor", "--sandbox-smoke", "-o", "json", "--only", "QD951,QD952,QD953,QD954,QD955,QD956,QD957,QD958")
	var report struct{ Checks []finding }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		l.t.Fatal(err)
	}
	for _, c := range report.Checks {
		l.t.Logf("%s %s: %s", c.Code, c.State, c.Message)
		// One host has everything, which QD955 warns of.
		if want := map[bool]string{true: "warn", false: "pass"}[c.Code == "QD955"]; c.State != want {
			l.t.Errorf("%s is %s, want %s", c.Code, c.State, want)
		}
	}
	if len(report.Checks) != 8 {
		l.t.Errorf("%d checks, want 8", len(report.Checks))
	}
	l.says(out, "backend docker-runsc, runtime runsc of Docker ", ", platform systrap")
}

func seconds(d time.Duration) string {
	return strings.Repeat(" ", max(0, 6-len(d.Round(100*time.Millisecond).String()))) + d.Round(100*time.Millisecond).String()
}
