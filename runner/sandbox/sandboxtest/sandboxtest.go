// Package sandboxtest finds and builds what tests of real sandboxes need: the
// runtime, the guest binary, and a root with the host's tools.
package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/toolchain"
)

// EnvGuest names a guest binary to test instead of a fresh build.
const EnvGuest = "QUAVON_TEST_GUEST"

// Skip skips a test for want of something, but fails it in CI, where everything
// must be there.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("must not be skipped in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Module is the root of this module's source.
func Module(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("find the module's root: %v", err)
	}
	return filepath.Clean(string(out[:len(out)-1]))
}

// Runsc is the runtime: QUAVON_RUNSC, else what make builds.
func Runsc(t testing.TB) string {
	t.Helper()
	p := os.Getenv(runsc.EnvBinary)
	if p == "" {
		p = filepath.Join(Module(t), "bin", "runsc")
	}
	if _, err := os.Stat(p); err != nil {
		Skip(t, "no runtime (%v): run make, or set %s", err, runsc.EnvBinary)
	}
	return p
}

// build makes the guest binary once per test process. The temporary directory is
// left to the system: several tests share it, and none is the last.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "quavon-guest-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // rootless tests share it
		return "", err
	}
	p := filepath.Join(dir, "quavon-guest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", p, "github.com/quavon/quavon/cmd/quavon-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build quavon-guest: %w\n%s", err, out)
	}
	return p, nil
})

// Guest is the guest binary.
func Guest(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(EnvGuest); p != "" {
		return p
	}
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Root is the host's tools as a sandbox's root, kept in the state directory.
func Root(t testing.TB, d *state.Dir) *toolchain.Tree {
	t.Helper()
	store := d.Path("toolchain")
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	tree, err := toolchain.Prepare(toolchain.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}
