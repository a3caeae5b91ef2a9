package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer"
	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
	"github.com/quavon/quavon/test/race"
)

// How long dockerd may take to read its file: where it will, on a busy machine, and where
// it never does.
const (
	patient   = 3 * time.Minute
	impatient = 2 * time.Second
)

// rig is a host with a real dockerd, and the installation of gVisor on it.
type rig struct {
	// base has the engine, gVisor's directory and the installation's, whose name is dir.
	base, dir, source string
	host              host
	patience          time.Duration
	accept            bool
	hook              func(string)
}

func (r *rig) engine() string { return filepath.Join(r.base, "e") }
func (r *rig) config() string { return filepath.Join(r.engine(), "daemon.json") }
func (r *rig) lib() string    { return filepath.Join(r.base, "lib") }
func (r *rig) socket() string { return filepath.Join(r.engine(), "docker.sock") }

// newRig starts a dockerd without gVisor; it ends with the test. A kind of file system is
// mounted for all of it.
func newRig(t *testing.T, kind ...string) *rig {
	t.Helper()
	need.That(t, os.Geteuid() == 0, "root, for a Docker engine")
	base, err := os.MkdirTemp("/var/lib", "quavon-rt-") //nolint:usetesting // nobody else may change what dockerd runs
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{base: base, dir: "install", patience: patient}
	for _, kind := range kind {
		if err := unix.Mount(kind, base, kind, 0, "mode=755"); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if out, err := r.script(t, "stop"); err != nil {
			t.Errorf("stop the engine: %v\n%s", err, out)
		}
		for range kind {
			if err := unix.Unmount(base, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := r.script(t, "start", "-"); err != nil {
		need.Skip(t, "no Docker Engine: %v\n%s", err, out)
	}
	r.source = writeRunsc(t, filepath.Join(base, "first"), program(version("release-20260803.0")))
	return r
}

func (r *rig) script(t *testing.T, verb string, more ...string) (string, error) {
	t.Helper()
	script := filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh")
	out, err := exec.Command(script, append([]string{verb, r.engine()}, more...)...).CombinedOutput()
	return string(out), err
}

// again starts the dockerd that has ended.
func (r *rig) again(t *testing.T, flags ...string) {
	t.Helper()
	if out, err := r.script(t, "again", flags...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (r *rig) pid(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.engine(), "dockerd.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// end ends dockerd, with a signal, and waits for that.
func (r *rig) end(t *testing.T, sig unix.Signal) {
	t.Helper()
	pid := r.pid(t)
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	for host("").isDockerd(pid) {
		time.Sleep(20 * time.Millisecond)
	}
}

// registered is what the engine has, nil for none.
func (r *rig) registered(t testing.TB) *registered {
	t.Helper()
	info, err := engine{r.socket()}.info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if have, ok := info.Runtimes[Name]; ok {
		return &have
	}
	return nil
}

func (r *rig) read(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(r.config())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// edit changes daemon.json as an operator does.
func (r *rig) edit(t *testing.T, old, now string) {
	t.Helper()
	text := r.read(t)
	if !strings.Contains(text, old) {
		t.Fatalf("there is no %s in %s", old, text)
	}
	if err := os.WriteFile(r.config(), []byte(strings.Replace(text, old, now, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// view shows nothing, and remembers.
type view struct{ said }

func (*view) Begin(string)                                 {}
func (*view) Changed(phase.Change)                         {}
func (*view) End(string, installer.Outcome, time.Duration) {}

// installer is one whose only phase is this package's.
func (r *rig) installer() (*installer.Installer, *view) {
	t := &phase.Target{Dir: filepath.Join(r.base, r.dir), Sandbox: true, Backend: Backend, Socket: r.socket(), Version: "test"}
	p := &Runtime{
		Target: t, Source: r.source, Lib: r.lib(), host: r.host, patience: r.patience,
		Accepted: func(string) bool { return r.accept },
	}
	show := &view{}
	return &installer.Installer{
		Target: t, Phases: []phase.Phase{p}, View: show, Yes: true, Again: "`quavon install`",
		Journal: journal.Options{Dir: t.State(), Version: "test", Hook: r.hook, Revert: func(path string) journal.Revert {
			if path != r.config() {
				return nil
			}
			return func(before, after, now []byte) ([]byte, bool, error) {
				return daemonjson.Revert(Name, before, after, now)
			}
		}, Shared: func(path string) (string, error) { return Shared(t.Dir, path) }},
	}, show
}

func (r *rig) install(ctx context.Context) (*installer.Report, *view, error) {
	in, show := r.installer()
	report, err := in.Install(ctx)
	return report, show, err
}

func (r *rig) uninstall(ctx context.Context) (*view, error) {
	in, show := r.installer()
	_, err := in.Uninstall(ctx, true)
	return show, err
}

// mustInstall installs, and looks whether all is as it should be.
func (r *rig) mustInstall(t *testing.T) {
	t.Helper()
	if _, _, err := r.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	have := r.registered(t)
	if want := (registered{Path: r.lib() + "/runsc/runsc", Args: []string{platform}}); have == nil || !have.same(want) {
		t.Fatalf("dockerd has %v", have)
	}
	release, err := checkProgram(t.Context(), have.Path)
	text, _ := os.ReadFile(r.source)
	if err != nil || !bytes.Contains(text, []byte(release)) {
		t.Fatalf("%s is installed: %v", release, err)
	}
	if report, _, err := r.install(t.Context()); err != nil || report.Changed {
		t.Fatalf("another installation: %+v, %v", report, err)
	}
}

// mustUninstall uninstalls, and looks whether all is as it was before.
func (r *rig) mustUninstall(t *testing.T, before string) {
	t.Helper()
	if _, err := r.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.clean(t, before)
}

// clean looks whether nothing of an installation is left.
func (r *rig) clean(t *testing.T, before string) {
	t.Helper()
	if d := cmp.Diff(before, r.read(t)); d != "" {
		t.Fatalf("daemon.json: %s", d)
	}
	for _, dir := range []string{r.lib(), filepath.Join(r.base, r.dir)} {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			out, _ := exec.Command("find", dir).Output()
			t.Fatalf("%s is left: %s", dir, out)
		}
	}
}

// victim is the process that is killed at a point of its installation.
func victim(base string) int {
	at, _ := strconv.Atoi(os.Getenv("QUAVON_TEST_KILL"))
	n := 0
	r := &rig{base: base, dir: "install", source: os.Getenv("QUAVON_TEST_SOURCE"), patience: patient, hook: func(string) {
		if n++; n == at {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}}
	in, _ := r.installer()
	do := func(ctx context.Context) (*installer.Report, error) { return in.Install(ctx) }
	if os.Getenv("QUAVON_TEST_VERB") == "uninstall" {
		do = func(ctx context.Context) (*installer.Report, error) { return in.Uninstall(ctx, true) }
	}
	if _, err := do(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// kill runs a verb in another process, which is killed at a point; ended says that it
// came to its end before.
func (r *rig) kill(t *testing.T, verb string, at int) (ended bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "QUAVON_TEST_VICTIM="+r.base, "QUAVON_TEST_SOURCE="+r.source, "QUAVON_TEST_VERB="+verb,
		fmt.Sprintf("QUAVON_TEST_KILL=%d", at), race.Env(t))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("%s, to be killed at %d: %v\n%s", verb, at, err, out)
	}
	return false
}
