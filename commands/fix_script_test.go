package commands

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// TestFixScripts runs testdata/fix: checks of patches in an image, whose setup fetches
// from a TLS server of the test's own.
func TestFixScripts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		need.Skip(t, "/etc/hosts is mounted, which takes root")
	}
	site, tools := newSite(t, nil), toolsImage(t, nil)
	site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.log <- r.Method + " " + r.Host + r.URL.Path
		fmt.Fprintln(w, "served")
	})
	stateDir, guest, runsc := statetest.Path(t), sandboxtest.Guest(t), sandboxtest.Runsc(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "fix"), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			for name, value := range map[string]string{
				state.EnvDir: stateDir, envGuest: guest, envRunsc: runsc, "TOOLS": tools, "NETNS": site.netns,
			} {
				e.Setenv(name, value)
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "hosts"), []byte(siteIP+" ok.example own.example\n"), 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "ca": site.ca, "seen": site.seen},
	})
}
