package commands

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// TestScanScripts runs testdata/scan: scans of this host and of a real runner with a real
// Valkey, in real sandboxes of an image that has one of the scanners, Ruff. The
// shipped image, which has them all, takes longer to build than all tests take; with
// it the same is done by test/scan.
func TestScanScripts(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	stateDir, guest, runsc := statetest.Path(t), sandboxtest.Guest(t), sandboxtest.Runsc(t)
	layout := toolsImage(t, map[string]string{"/usr/local/bin/ruff": fromPyPI(t, "ruff==0.17.6", "ruff")})
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "scan"), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			for name, value := range map[string]string{
				state.EnvDir: stateDir, envGuest: guest, envRunsc: runsc, "LAYOUT": layout, "VALKEY_URL": "unix://" + server.Socket,
				"QUAVON_SANDBOX_SIGNING_KEY": base64.StdEncoding.EncodeToString(key),
			} {
				e.Setenv(name, value)
			}
			e.Setenv("TMPDIR", os.TempDir()) // a script's own isn't for everybody, which the runner's test needs
			e.Defer(func() { killLeft(e.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until, "within": within},
	})
}

// within TIME PROGRAM [ARG...] fails when the program takes longer, however it ends.
func within(ts *testscript.TestScript, _ bool, args []string) {
	most, err := time.ParseDuration(args[0])
	ts.Check(err)
	begin := time.Now()
	_ = ts.Exec(args[1], args[2:]...) // what it says is looked at next
	if took := time.Since(begin); took > most {
		ts.Fatalf("it took %s", fmt.Sprint(took))
	}
}
