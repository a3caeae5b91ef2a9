// Package statetest makes state directories for tests: outside of /tmp, whose
// like a state directory refuses.
package statetest

import (
	"errors"
	"io/fs"
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
	path, err := fresh(base)
	if err != nil {
		t.Fatalf("make a directory in %s (set %s to another place): %v", base, EnvBase, err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Errorf("remove test state: %v", err)
		}
		_ = os.Remove(base) // Fails while another test uses it.
	})
	return path
}

// fresh makes a directory. The one it is in goes with the last test that uses it, also
// just when the next begins.
func fresh(base string) (string, error) {
	for {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return "", err
		}
		path, err := os.MkdirTemp(base, "")
		if !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
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
