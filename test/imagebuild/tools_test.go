//go:build imagebuild

// Package imagebuild builds the shipped images for real, from the registries, and
// runs what is in them in gVisor. `make images-build` does it.
package imagebuild

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var (
	bin   = flag.String("bin", "", "directory of quavon, quavon-guest and runsc")
	state = flag.String("state", "", "state directory whose store has the images")
)

// TestTools has each tool of each image say its version and do one piece of work,
// as the image's own user, without a network.
func TestTools(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("QUAVON_STATE_DIR", *state)
			e.Setenv("PATH", *bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			return nil
		},
	})
}
