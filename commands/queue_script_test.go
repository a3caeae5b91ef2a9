package commands

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// TestQueueScripts runs testdata/queue against the real command, a real Valkey and
// real sandboxes.
func TestQueueScripts(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	stateDir, guest, runsc := statetest.Path(t), sandboxtest.Guest(t), sandboxtest.Runsc(t)
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "queue"), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			e.Setenv("TMPDIR", os.TempDir()) // a script's own isn't for everybody, which the runner's test needs
			e.Setenv(state.EnvDir, stateDir)
			e.Setenv(envGuest, guest)
			e.Setenv(envRunsc, runsc)
			e.Setenv(state.EnvLockFile, filepath.Join(e.WorkDir, "lock"))
			e.Setenv("SOCKET", server.Socket)
			e.Setenv("SECRET", base64.StdEncoding.EncodeToString(key))
			return os.WriteFile(filepath.Join(e.WorkDir, "key"), []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until},
	})
}

// until WORD PROGRAM [ARG...] runs a program again and again until its output has the
// word. A busy machine takes its time.
func until(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := ts.Exec(args[1], args[2:]...); err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
	}
	ts.Fatalf("no %q in the output of %v", args[0], args[1:])
}
