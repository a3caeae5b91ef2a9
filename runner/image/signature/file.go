package signature

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/runner/bounded"
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
	raw, err := bounded.ReadFile(file(dir, digest), maxBundle)
	if err != nil {
		return nil, err
	}
	return ParseBundle(raw, digest)
}
