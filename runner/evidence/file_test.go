package evidence_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/evidence"
)

// TestFileDigest changes a file in ways that are meant not to be seen.
func TestFileDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "runsc"), filepath.Join(dir, "other")
	long := time.Now().Add(-time.Hour)
	write := func(path, text string) {
		// The clock of a file's change has ticks.
		time.Sleep(20 * time.Millisecond)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o700), os.Chtimes(path, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	var f evidence.File
	last := ""
	for _, change := range []struct {
		name string
		make func()
		same bool
	}{
		{"at first", func() { write(path, "sound") }, false},
		{"not at all", func() {}, true},
		{"in place, with its time put back", func() { write(path, "break") }, false},
		{"another file by rename, of the same size and time", func() {
			write(other, "third")
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"by a symbolic link", func() {
			write(other, "forth")
			if err := errors.Join(os.Remove(path), os.Symlink(other, path)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		change.make()
		got, err := f.Digest(path)
		if err != nil || (got == last) != change.same {
			t.Errorf("changed %s: %s after %s, %v", change.name, got, last, err)
		}
		last = got
	}
	if _, err := f.Digest(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that isn't there has a digest")
	}
}
