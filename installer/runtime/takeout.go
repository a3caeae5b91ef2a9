package runtime

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/regular"
	"github.com/quavon/quavon/runner/fault"
)

// takeOut removes our entry from a daemon.json, where an installation before has left it.
// One that somebody has changed since is theirs.
func (r *Runtime) takeOut(ctx context.Context, lib, path string, show phase.Reporter) error {
	data, err := regular.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := daemonjson.Parse(data)
	if err != nil {
		return fault.Wrap(err, path, fault.Hint(err))
	}
	if !f.Has(Name, entryOf(lib)) {
		return nil
	}
	next, ok, err := daemonjson.Revert(Name, []byte("{}"), data, data)
	if err != nil || !ok {
		return err
	}
	d, info, err := r.find(ctx)
	reads := err == nil && phase.SameFile(d.configFile(), path)
	if reads {
		if err := d.unused(ctx, info); err != nil {
			return err
		}
	}
	if err := rewrite(path, next); err != nil {
		return err
	}
	if !reads {
		show.Line("the entry of " + Name + " is taken out of " + path + ", which a dockerd reads when it is reloaded or started")
		return nil
	}
	if err := d.reload(ctx); err != nil {
		return err
	}
	return r.forget(ctx, d, lib, show)
}

// rewrite replaces a file in one step, with the mode and the owner that it has.
func rewrite(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(path)
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // of nothing when it was renamed
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		err = f.Chown(int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
