package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/lock"
)

// FuzzRecord reads what somebody else has written where records are. At worst the
// file is made again: no content but the recorded one is ever taken for current.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"format":"1 quavon ext4 1","path":"/x","made":{"image":"sha256:00","kind":"ext4","sha256":"0","size":7},"seen":{}}`))
	f.Add([]byte(`{`))
	f.Add([]byte(`null`))
	dir := f.TempDir()
	path := filepath.Join(dir, "image")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		f.Fatal(err)
	}
	m := Maker{Records: filepath.Join(dir, "records")}
	if err := os.Mkdir(m.Records, 0o700); err != nil {
		f.Fatal(err)
	}
	config := v1.Hash{Algorithm: "sha256", Hex: "00"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(m.record(path), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		made, ok := m.Current(t.Context(), config, path, Options{Kind: lock.KindExt4})
		if ok && made.SHA256 != "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" {
			t.Errorf("current: %+v", made)
		}
	})
}
