package signature

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// Dir is the directory of bundles, beside a lock file and in a store.
const Dir = "signatures"

func file(dir, digest string) string {
	return filepath.Join(dir, strings.TrimPrefix(digest, "sha256:")+".json")
}

// Write keeps the bundle in dir, which is made if need be, and returns its digest.
func (b *Bundle) Write(dir string) (digest string, err error) {
	raw, digest, err := b.Encode()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return digest, renameio.WriteFile(file(dir, digest), raw, 0o644)
}

// Read reads the bundle with the digest, "sha256:" and 64 digits, from dir.
func Read(dir, digest string) (*Bundle, error) {
	f, err := os.Open(file(dir, digest))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	if err != nil {
		return nil, err
	}
	return ParseBundle(raw, digest)
}
