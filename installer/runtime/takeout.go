package runtime

import (
	"context"
	"errors"
	"io/fs"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/journal"
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
	if err := journal.Rewrite(path, next); err != nil {
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
