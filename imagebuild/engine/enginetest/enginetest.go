// Package enginetest starts a real Docker Engine for tests.
package enginetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// Start starts an engine that ends with the test, and returns its address. It
// needs root, and has no network unless mode, which engine.sh takes, says otherwise.
func Start(t testing.TB, mode ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "a Docker Engine needs root")
	}
	script := filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh")
	dir, err := os.MkdirTemp("", "quavon-engine-") //nolint:usetesting // a short path, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stop the engine: %v\n%s", err, out)
		}
	})
	cmd := exec.Command(script, append([]string{"start", dir, sandboxtest.Runsc(t)}, mode...)...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		need.Skip(t, "no Docker Engine: %v\n%s", err, log.String())
	}
	return strings.TrimSpace(string(out))
}
