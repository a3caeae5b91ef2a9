// Package imagebuild builds shipped images for real, from the registries, and runs
// what is in them in gVisor: one in each run of the tests, all with
// `make images-build`.
package imagebuild

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quavon/quavon/commands"
)

func TestMain(m *testing.M) {
	commands.Version = "test"
	testscript.Main(m, map[string]func(){"quavon": func() {
		os.Exit(commands.Main(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
	}})
}

// runScript runs testdata/NAME.txtar with these variables set.
func runScript(t *testing.T, name string, env map[string]string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Files:               []string{"testdata/" + name + ".txtar"},
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for k, v := range env {
				e.Setenv(k, v)
			}
			return nil
		},
	})
}
