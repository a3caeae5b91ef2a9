package bundle

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
)

// Extract writes the members below prefix, which ends in a slash, into dir, which must
// not be there: it appears whole, checked and on disk, or not at all.
func (b *Bundle) Extract(ctx context.Context, prefix, dir string) (err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".bundle-")
	if err != nil {
		return fault.Wrap(err, "unpack "+b.Path, "make room in "+filepath.Dir(dir))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	for _, m := range b.Manifest.Members {
		if name, ok := strings.CutPrefix(m.Name, prefix); ok {
			if err := b.extract(ctx, m.Name, filepath.Join(tmp, filepath.FromSlash(name))); err != nil {
				return fault.Wrap(err, "unpack "+b.Path, hintOf(err))
			}
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := errors.Join(disk.SyncDir(tmp), os.Rename(tmp, dir)); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(dir))
}

func (b *Bundle) extract(ctx context.Context, name, to string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(name, "bin/") {
		mode = 0o755
	}
	r, err := b.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	if err == nil {
		err = out.Chmod(mode)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
