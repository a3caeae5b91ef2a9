package commands

import (
	"context"
	"embed"
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

// scripts are embedded for the user without rights, who can't see the source.
//
//go:embed testdata/script
var scripts embed.FS

// TestScripts runs testdata/script against the real command, most of it in real
// sandboxes.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t)
}

func runScripts(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, scripts); err != nil {
		t.Fatal(err)
	}
	stateDir := statetest.Path(t)
	guest, runsc := sandboxtest.Guest(t), sandboxtest.Runsc(t)
	images := testImages(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(dir, "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			e.Setenv(state.EnvDir, filepath.Join(stateDir, filepath.Base(e.WorkDir)))
			e.Setenv(envGuest, guest)
			e.Setenv(envRunsc, runsc)
			for name, value := range images {
				e.Setenv(name, value)
			}
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

// interrupt SIGNAL FILE WORD waits until the one background program has written WORD
// into the file, then sends the signal. Of two that come at once a process sees one: the
// word says that the first has come.
func interruptAfter(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[0]]
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if data, err := os.ReadFile(ts.MkAbs(args[1])); err == nil && strings.Contains(string(data), args[2]) {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q in %s", args[2], args[1])
		}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile("pid")))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, sig))
}

// TestScriptsRootless runs the same scripts as a user without rights.
func TestScriptsRootless(t *testing.T) {
	t.Parallel()
	if sandboxtest.AsUser(t) {
		runScripts(t)
	}
}
