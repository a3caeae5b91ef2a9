package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quavon": func() {
		os.Exit(Main(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}})
}

// TestScripts runs testdata/script against the real command, most of it in real
// sandboxes.
func TestScripts(t *testing.T) {
	t.Parallel()
	stateDir := statetest.Path(t)
	guest, runsc := sandboxtest.Guest(t), sandboxtest.Runsc(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv(state.EnvDir, stateDir)
			e.Setenv(envGuest, guest)
			e.Setenv(envRunsc, runsc)
			return os.MkdirAll(filepath.Join(e.WorkDir, "ws"), 0o755)
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "interrupt": interruptAfter},
	})
}

// exits CODE PROGRAM [ARG...] runs a program and checks its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// interrupt SIGNAL N LINE waits until the one background program has written LINE
// into the file, then sends the signal N times.
func interruptAfter(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]
	times, err := strconv.Atoi(args[1])
	ts.Check(err)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if data, err := os.ReadFile(ts.MkAbs(args[2])); err == nil && strings.Contains(string(data), "ready") {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the job is not ready after 30 s")
		}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile("pid")))
	ts.Check(err)
	for range times {
		ts.Check(syscall.Kill(pid, sig))
		time.Sleep(100 * time.Millisecond)
	}
}

// TestScriptsRootless runs the same scripts as a user without rights.
func TestScriptsRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the scripts ran without root already")
	}
	t.Parallel()
	const nobody = 65534
	dir, err := os.MkdirTemp(rootlessBase(t), "rootless-") //nolint:usetesting // nobody has to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	copies := exec.Command("cp", "-rL", self, scripts, sandboxtest.Runsc(t), sandboxtest.Guest(t), dir)
	if out, err := copies.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := exec.Command("sh", "-c", "mkdir tmp state && chown -R 65534:65534 . && chmod -R go+rX .")
	own.Dir = dir
	if out, err := own.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(filepath.Join(dir, filepath.Base(self)), "-test.run=^TestScripts$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp"), "CI=" + os.Getenv("CI"),
		statetest.EnvBase + "=" + filepath.Join(dir, "state"),
		envRunsc + "=" + filepath.Join(dir, filepath.Base(sandboxtest.Runsc(t))),
		sandboxtest.EnvGuest + "=" + filepath.Join(dir, filepath.Base(sandboxtest.Guest(t))),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestScripts/") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// rootlessBase is a directory whose parents a state directory accepts and that
// everybody can enter, which neither /tmp nor root's home are.
func rootlessBase(t *testing.T) string {
	t.Helper()
	base := "/srv"
	if info, err := os.Stat(base); err != nil || info.Mode().Perm()&0o022 != 0 {
		sandboxtest.Skip(t, "no /srv that only root can write: %v", err)
	}
	return base
}
