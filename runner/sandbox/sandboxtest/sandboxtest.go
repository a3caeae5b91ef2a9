// Package sandboxtest finds and builds what tests of real sandboxes need: the
// runtime, the guest binary, and a root with the host's tools.
package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/toolchain"
	"github.com/quavon/quavon/test/need"
)

// EnvGuest and EnvProbe name programs to use instead of fresh builds.
const (
	EnvGuest = "QUAVON_TEST_GUEST"
	EnvProbe = "QUAVON_TEST_PROBE"
)

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
		need.Skip(t, "no runtime (%v): run make, or set %s", err, runsc.EnvBinary)
	}
	return p
}

// Guest is the guest binary.
func Guest(t testing.TB) string {
	t.Helper()
	return program(t, "cmd/quavon-guest", EnvGuest)
}

// Probe is the program that the conformance suite runs inside, alone in its
// directory.
func Probe(t testing.TB) string {
	t.Helper()
	return program(t, "runner/sandbox/conformance/probe", EnvProbe)
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
