package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/quavon/quavon/runner/disk"
)

func TestSum(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if _, err := disk.Sum(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The example of FIPS 180.
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got, err := disk.Sum(path); got != want || err != nil {
		t.Error(got, err)
	}
	if err := errors.Join(disk.SyncDir(filepath.Dir(path)), disk.SyncDir(path+".not")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
