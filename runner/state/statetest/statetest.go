// Package statetest makes state directories for tests: outside of /tmp, whose
// like a state directory refuses.
package statetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quavon/quavon/runner/state"
)

// EnvBase names the directory that test state is made in; the default is in the
// user's home.
const EnvBase = "QUAVON_TEST_DIR"

// Path is a fresh directory below one that state.Open accepts. It is removed
// with the test.
func Path(t testing.TB) string {
	t.Helper()
	base := os.Getenv(EnvBase)
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatalf("no home directory for test state (%v): set %s", err, EnvBase)
		}
		base = filepath.Join(home, ".quavon-test")
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatalf("make %s (set %s to another place): %v", base, EnvBase, err)
	}
	path, err := os.MkdirTemp(base, "") //nolint:usetesting // not below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Errorf("remove test state: %v", err)
		}
		_ = os.Remove(base) // Fails while another test uses it.
	})
	return path
}

// Dir is an open state directory of the test's own.
func Dir(t testing.TB) *state.Dir {
	t.Helper()
	d, err := state.Open(Path(t))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
