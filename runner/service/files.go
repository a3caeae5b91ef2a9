package service

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/runner/fault"
)

// empty makes a directory, or removes what is in it.
func empty(dir string) error {
	const hint = "make the state directory writable for the runner"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(err, "make the runner's directory", hint)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.Wrap(err, "read the runner's directory", hint)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, removeAll(filepath.Join(dir, e.Name())))
	}
	if err := errors.Join(errs...); err != nil {
		return fault.Wrap(err, "remove what a crashed runner left", hint)
	}
	return nil
}

// removeAll removes a tree, also one whose directories forbid it to their owner.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // it is removed next
		}
		return nil // what stays is reported by the second attempt
	})
	return os.RemoveAll(dir)
}
