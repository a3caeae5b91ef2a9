package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

func TestOpenChecksEveryParent(t *testing.T) {
	tests := []struct {
		name string
		// prepare makes something below base and returns the path to open.
		prepare func(t *testing.T, base string) string
		// refused is part of the error, "" when the path is good.
		refused string
		hint    string
	}{
		{name: "new", prepare: func(_ *testing.T, base string) string { return filepath.Join(base, "a", "b") }},
		{
			name:    "own directory writable by others",
			prepare: func(t *testing.T, base string) string { return mkdir(t, filepath.Join(base, "a"), 0o707) },
			refused: "writable by others", hint: "chmod go-w",
		},
		{
			name: "parent writable by others",
			prepare: func(t *testing.T, base string) string {
				return filepath.Join(mkdir(t, filepath.Join(base, "p"), 0o777), "a")
			},
			refused: "writable by others", hint: "chmod go-w",
		},
		{
			name: "sticky parent",
			prepare: func(t *testing.T, base string) string {
				return filepath.Join(mkdir(t, filepath.Join(base, "p"), 0o777|os.ModeSticky), "a")
			},
			refused: "writable by everyone", hint: state.EnvDir,
		},
		{
			name: "link into a bad place",
			prepare: func(t *testing.T, base string) string {
				mkdir(t, filepath.Join(base, "p"), 0o777)
				link(t, filepath.Join(base, "p"), filepath.Join(base, "l"))
				return filepath.Join(base, "l", "a")
			},
			refused: "writable by others", hint: "chmod",
		},
		{
			name: "dangling link",
			prepare: func(t *testing.T, base string) string {
				link(t, "/nowhere/at/all", filepath.Join(base, "l"))
				return filepath.Join(base, "l")
			},
			refused: "dangling", hint: state.EnvDir,
		},
		{
			name: "file in the way",
			prepare: func(t *testing.T, base string) string {
				p := filepath.Join(base, "f")
				if err := os.WriteFile(p, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				return p
			},
			refused: "not a directory", hint: "remove it",
		},
		{
			name: "someone else's",
			prepare: func(t *testing.T, base string) string {
				p := mkdir(t, filepath.Join(base, "o"), 0o700)
				if os.Geteuid() != 0 {
					return "/proc/1/nothing" // Root's, but never writable for us.
				}
				if err := os.Chown(p, 12345, 12345); err != nil {
					t.Fatal(err)
				}
				return p
			},
			refused: "state directory", hint: state.EnvDir,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := state.Open(tt.prepare(t, statetest.Path(t)))
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("error %v, want one with %q", err, tt.refused)
			case tt.refused != "" && !strings.Contains(fault.Hint(err), tt.hint):
				t.Errorf("hint %q, want one with %q", fault.Hint(err), tt.hint)
			}
		})
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
