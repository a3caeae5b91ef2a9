// Package disk is about files as the disk has them: what they hold, and that a change of
// names outlives a power cut.
package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/quavon/quavon/runner/bounded"
)

// Sum is the sha256 of a file's content, 64 hexadecimal digits.
func Sum(path string) (string, error) {
	f, err := bounded.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return SumOf(f)
}

// Digest is Sum as OCI writes it, with "sha256:" before it.
func Digest(path string) (string, error) {
	sum, err := Sum(path)
	if err != nil {
		return "", err
	}
	return "sha256:" + sum, nil
}

// SumOf is Sum of what is still to be read.
func SumOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// SyncDir puts on disk which names a directory has.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
