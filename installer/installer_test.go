package installer

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/test/need"
	"github.com/quavon/quavon/test/race"
)

// kill runs a verb in another process, which is killed at a point; ended says that it
// came to its end before.
func kill(t *testing.T, verb, dir, version, at string) (ended bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "QUAVON_TEST_DIR="+dir, "QUAVON_TEST_VERB="+verb, "QUAVON_TEST_KILL="+at, "QUAVON_TEST_VERSION="+version, race.Env(t))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signal() == syscall.SIGKILL {
			return false
		}
	}
	if err != nil {
		t.Fatalf("%s, to be killed at %s: %v\n%s", verb, at, err, out)
	}
	return true
}

// TestKilledAnywhere kills installations between any two steps and in the middle of
// every write. The next one succeeds, and an uninstall then leaves what was there.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		dir := operator(t)
		before := tree(t, dir)
		ended := kill(t, "install", dir, "v1", strconv.Itoa(at))
		intact(t, dir)
		in, _ := world(dir, "v1", nil)
		deep(in)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatalf("after a kill at %d: %v", at, err)
		}
		checkInstalled(t, dir, "v1")
		if r, err := in.Install(t.Context()); err != nil || r.Changed {
			t.Fatalf("after a kill at %d the second installation: %+v %v", at, r, err)
		}
		if _, err := in.Uninstall(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("after a kill at %d an uninstall leaves: %s", at, d)
		}
		if ended {
			t.Logf("%d points", at-1)
			if at < 40 {
				t.Error("too few points to be all")
			}
			return
		}
	}
}

// TestKilledAndGivenUp: who doesn't install again after a kill but uninstalls has the host as
// it was before, down to the directories that the first had begun to make.
func TestKilledAndGivenUp(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		dir := operator(t)
		before := tree(t, dir)
		ended := kill(t, "install", dir, "v1", strconv.Itoa(at))
		in, _ := world(dir, "v1", nil)
		if _, err := deep(in).Uninstall(t.Context(), true); err != nil {
			t.Fatalf("after a kill at %d: %v", at, err)
		}
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("after a kill at %d an uninstall leaves: %s", at, d)
		}
		if ended {
			return
		}
	}
}

// TestUpgradeKilledAnywhere: after the kill the services run as one version's files
// say, never between two, once the next installation has begun; secrets are the same.
func TestUpgradeKilledAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		dir := operator(t)
		in, _ := world(dir, "v1", nil)
		deep(in)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		secrets := tree(t, filepath.Join(dir, "secrets"))
		ended := kill(t, "install", dir, "v2", strconv.Itoa(at))
		in, _ = world(dir, "v2", nil)
		deep(in)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatalf("after a kill at %d: %v", at, err)
		}
		checkInstalled(t, dir, "v2")
		if d := cmp.Diff(secrets, tree(t, filepath.Join(dir, "secrets"))); d != "" {
			t.Fatalf("secrets were made anew after a kill at %d", at)
		}
		if _, err := in.Rollback(t.Context()); err != nil {
			t.Fatalf("rollback: %v", err)
		}
		checkInstalled(t, dir, "v1")
		if ended {
			return
		}
	}
}

func TestUninstallKilledAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		dir := operator(t)
		before := tree(t, dir)
		in, _ := world(dir, "v1", nil)
		deep(in)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := kill(t, "uninstall", dir, "v1", strconv.Itoa(at))
		if _, err := in.Uninstall(t.Context(), true); err != nil {
			t.Fatalf("after a kill at %d: %v", at, err)
		}
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("after a kill at %d: %s", at, d)
		}
		if ended {
			return
		}
	}
}

// intact checks that the operator's files are whole: the old or the new.
func intact(t *testing.T, dir string) {
	t.Helper()
	for name, ok := range map[string][]string{
		".env":            {operatorEnv, operatorEnv + ",sandbox"},
		"etc/daemon.json": {operatorDaemon, newDaemon},
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(data) != ok[0] && string(data) != ok[1] {
			t.Fatalf("%s is %q: %v", name, data, err)
		}
	}
}

const newDaemon = "{\n    \"debug\": true,\n    \"runtimes\": {\n        \"runsc\": {\n            \"path\": \"/opt/runsc\",\n" +
	"            \"runtimeArgs\": [\"--platform=systrap\"]\n        }\n    }\n}"

func checkInstalled(t *testing.T, dir, version string) {
	t.Helper()
	all := tree(t, dir)
	for name, want := range map[string]string{
		".env": operatorEnv + ",sandbox", "etc/daemon.json": newDaemon, "running": "services of " + version + "\n",
		"compose.yaml": "services of " + version + "\n", "lib/deep/runsc": "version-1",
	} {
		_, got, _ := strings.Cut(all[filepath.Join(dir, name)], " ")
		if got != want {
			t.Fatalf("%s is %q, not %q", name, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, ".env")); err != nil || info.Mode().Perm() != 0o640 {
		t.Fatalf(".env has another mode: %v %v", info.Mode(), err)
	}
	for path := range all {
		if strings.Contains(path, "quavon-new") || strings.HasSuffix(path, "phase.json") {
			t.Fatalf("%s is left", path)
		}
	}
}

// TestFailure: a phase that fails is taken back, also when it is an upgrade's; those
// before it stand.
func TestFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	dir := operator(t)
	in, s := world(dir, "v1", nil)
	s.apply = func(context.Context) error { return broken }
	r, err := in.Install(t.Context())
	if !errors.Is(err, broken) || len(r.Standing) > 0 {
		t.Fatal(err, r.Standing)
	}
	for _, name := range []string{"running", "compose.yaml"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if said := strings.Join(in.View.(*lines).said, "; "); !strings.Contains(said, "what stands: runtime, secrets, env") {
		t.Error(said)
	}
	in, _ = world(dir, "v1", nil)
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	in, s = world(dir, "v2", nil)
	s.apply = func(context.Context) error { return broken }
	if _, err := in.Install(t.Context()); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	checkInstalled(t, dir, "v1")
	in.Retain = true
	if _, err := in.Install(t.Context()); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(s.running()); err != nil || string(now) != "services of v2\n" {
		t.Errorf("--retain did not: %q %v", now, err)
	}
	in, _ = world(dir, "v1", nil)
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkInstalled(t, dir, "v1")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	in, s := world(dir, "v1", nil)
	signal := errors.New("interrupted")
	s.apply = func(ctx context.Context) error {
		cancel(signal)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if _, err := in.Install(ctx); !errors.Is(err, signal) {
		t.Fatal(err)
	}
	if _, err := os.Lstat(s.running()); err == nil {
		t.Error("what was begun is still there")
	}
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	before := tree(t, dir)
	in, _ := world(dir, "v1", nil)
	in.Yes = false
	_, err := in.Install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no terminal") {
		t.Error(err)
	}
	asked := ""
	in.Ask = func(_ context.Context, q string) (bool, error) { asked = q; return false, nil }
	if _, err := in.Install(t.Context()); !errors.Is(err, ErrDeclined) || asked == "" {
		t.Error(err, asked)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Error(d)
	}
	in.Ask = func(context.Context, string) (bool, error) { return true, nil }
	if _, err := in.Install(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestChangedSince: what others have changed since stays, and our part is taken out.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	in, _ := world(dir, "v1", nil)
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	edit := func(name, old, now string) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.Replace(string(data), old, now, 1)), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(".env", "TOKEN='a b'", "TOKEN=other\r\nNEW=1")
	edit("etc/daemon.json", "\"debug\": true", "\"debug\": false")
	edit("compose.yaml", "services", "other services")
	r, err := in.Uninstall(t.Context(), true)
	if err != nil || len(r.Standing) != 1 || !strings.Contains(r.Standing[0].What, "compose.yaml was changed since") {
		t.Fatal(err, r.Standing)
	}
	for name, want := range map[string]string{
		".env":            strings.Replace(operatorEnv, "TOKEN='a b'", "TOKEN=other\r\nNEW=1", 1),
		"etc/daemon.json": strings.Replace(operatorDaemon, "true", "false", 1),
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, not %q: %v", name, got, want, err)
		}
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	in, s := world(dir, "v1", nil)
	s.apply = func(ctx context.Context) error {
		other, _ := world(dir, "v1", nil)
		_, err := other.Install(ctx)
		if err == nil || !strings.Contains(err.Error(), "another quavon") {
			t.Errorf("the second: %v", err)
		}
		return nil
	}
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFromPhase(t *testing.T) {
	t.Parallel()
	in, _ := world(operator(t), "v1", nil)
	in.From = phase.Compose
	if _, err := in.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "runtime was never done") {
		t.Fatal(err)
	}
	in.From = ""
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	in.From = phase.Compose
	if r, err := in.Install(t.Context()); err != nil || len(r.Phases) != 1 {
		t.Fatal(r, err)
	}
}

// TestForeignState: what another version wrote is read, or refused with a reason.
func TestForeignState(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"schema":2,"version":"v9"}`: "form 2 of quavon", `{"schema":`: "unexpected end", `{}`: "form 0",
	} {
		dir := operator(t)
		in, _ := world(dir, "v1", nil)
		if err := os.Mkdir(in.Target.State(), 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(in.Target.State(), "state.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Install(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s was overwritten", text)
		}
	}
}

// TestDiskFull fills a file system up to various points: an installation then fails or
// not, but nothing is lost, and with room again the next succeeds.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		need.Skip(t, "a small file system can only be mounted by root")
	}
	failed := 0
	for free := range 24 {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		if err := os.CopyFS(dir, os.DirFS(operator(t))); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(filepath.Join(dir, ".env"), 0o640)
		fill := filepath.Join(dir, "fill")
		if err := os.WriteFile(fill, make([]byte, (64-4-free)<<12), 0o600); err != nil {
			t.Fatal(err)
		}
		in, _ := world(dir, "v1", nil)
		if _, err := in.Install(t.Context()); err != nil {
			failed++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%d pages free: %v", free, err)
			}
		}
		intact(t, dir)
		if err := os.Remove(fill); err != nil {
			t.Fatal(err)
		}
		in, _ = world(dir, "v1", nil)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatalf("%d pages free before: %v", free, err)
		}
		checkInstalled(t, dir, "v1")
		// Detached: a child that another test is forking may have its files for a moment.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	if failed < 5 || failed == 24 {
		t.Errorf("%d of 24 ran out of room", failed)
	}
}
