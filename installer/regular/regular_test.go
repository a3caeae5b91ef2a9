package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	large, err := os.Create(at("large"))
	if err == nil {
		err = errors.Join(large.Truncate(1<<30), large.Close())
	}
	if err := errors.Join(err, unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700),
		os.WriteFile(at("file"), []byte("A=1\n"), 0o600), os.Symlink("file", at("link")), os.Symlink("pipe", at("to-pipe"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link"} {
		if data, err := ReadFile(at(name), 100); err != nil || string(data) != "A=1\n" {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
	for name, want := range map[string]string{
		"pipe": "no regular file", "to-pipe": "no regular file", "dir": "no regular file", "large": "more than 100 bytes",
	} {
		if _, err := ReadFile(at(name), 100); err == nil || !strings.Contains(err.Error(), want) || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadFile(at("none"), 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what isn't there: %v", err)
	}
}
