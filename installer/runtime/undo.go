package runtime

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// Undo implements phase.Phase.
func (r *Runtime) Undo(ctx context.Context, act phase.Act, how phase.How, show phase.Reporter) error {
	switch act.Name {
	case actUse:
		return r.undoUse(ctx, act, how, show)
	case actUnpack:
		return r.undoUnpack(act, how)
	}
	return r.undoReload(ctx, act, how, show)
}

func (r *Runtime) undoUse(ctx context.Context, act phase.Act, how phase.How, show phase.Reporter) error {
	if how != phase.Failed {
		return r.resign(ctx, act, show)
	}
	u := user{act.Data["dir"], act.Data["was"]}
	if u.DaemonJSON != "" {
		return u.note(act.Key)
	}
	if err := removed(u.file(act.Key)); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(act.Key, usersDir)) // others' may be there
	return nil
}

// undoUnpack removes a version, but for one that others use: by a link of theirs, or in what
// they go back to.
func (r *Runtime) undoUnpack(act phase.Act, how phase.How) error {
	lib := filepath.Dir(act.Key)
	if how != phase.Failed {
		others, err := usersOf(lib, r.Target.Dir)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return leaveTo(lib)
		}
	}
	// A link that others made to it keeps it.
	if to, err := os.Readlink(filepath.Join(lib, linkName)); err == nil && filepath.Join(lib, to) == act.Key {
		return nil
	}
	return errors.Join(os.RemoveAll(staging(act.Key)), os.RemoveAll(discard(act.Key)), os.RemoveAll(act.Key))
}

// undoReload makes dockerd read its file again, from which the entry was taken; not where
// that was left to others.
func (r *Runtime) undoReload(ctx context.Context, act phase.Act, how phase.How, show phase.Reporter) error {
	d, info, err := r.find(ctx)
	path := act.Data["daemonJSON"]
	if path == "" && err == nil {
		path = cmp.Or(r.DaemonJSON, d.configFile())
	}
	if path != "" && how != phase.Failed {
		if theirs, err := Shared(r.Target.Dir, path); err != nil {
			return err
		} else if theirs != "" {
			return leaveTo(libOf(path), path)
		}
	}
	if err != nil {
		return r.revive(ctx, manager{act.Data["manager"], act.Data["service"]}, how, show)
	}
	if how != phase.Failed {
		if err := d.unused(ctx, info); err != nil {
			return err
		}
	}
	if err := d.reload(ctx); err != nil {
		return err
	}
	return r.forget(ctx, d, r.lib(), show)
}

// revive starts a dockerd that ended when it was to read the file, which is as it was.
// One that isn't there any more reads it when it starts.
func (r *Runtime) revive(ctx context.Context, m manager, how phase.How, show phase.Reporter) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if how != phase.Failed || m.kind == "" {
		show.Line("there is no dockerd here to read its daemon.json again, which is as it was")
		return nil
	}
	show.Line("dockerd does not answer, and is started again: " + strings.Join(m.argv("start"), " "))
	return m.run(ctx, "start")
}

// unused refuses to take the runtime away from containers that are running on it: they
// could be neither stopped nor looked at any more.
func (d *daemon) unused(ctx context.Context, info engineInfo) error {
	if _, listed := info.Runtimes[Name]; !listed {
		return nil
	}
	names, err := d.running(ctx, Name)
	if err != nil || len(names) == 0 {
		return err
	}
	return fault.New("containers run with "+Name+": "+strings.Join(names, ", "), "`docker stop "+strings.Join(names, " ")+"`")
}

// forget looks whether dockerd has dropped the runtime, which it does not when there is
// no other in the file.
func (r *Runtime) forget(ctx context.Context, d *daemon, lib string, show phase.Reporter) error {
	info, err := d.info(ctx)
	if err != nil {
		return err
	}
	if have, ok := info.Runtimes[Name]; !ok || have.Path != entryOf(lib).Path {
		return nil
	}
	if r.accepted() && d.manager.kind != "" {
		show.Line("dockerd is restarted to forget the runtime " + Name)
		return d.restart(ctx)
	}
	show.Line("dockerd lists the runtime " + Name + " until it is restarted; nothing uses it")
	return nil
}
