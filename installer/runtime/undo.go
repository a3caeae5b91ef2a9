package runtime

import (
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
	if act.Name == actUnpack {
		// A link that others made to it keeps it.
		if to, err := os.Readlink(r.link()); err == nil && filepath.Join(r.lib(), to) == act.Key {
			return nil
		}
		return errors.Join(os.RemoveAll(staging(act.Key)), os.RemoveAll(discard(act.Key)), os.RemoveAll(act.Key))
	}
	d, info, err := r.find(ctx)
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
	return r.forget(ctx, d, show)
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
func (r *Runtime) forget(ctx context.Context, d *daemon, show phase.Reporter) error {
	info, err := d.info(ctx)
	if err != nil {
		return err
	}
	if have, ok := info.Runtimes[Name]; !ok || have.Path != r.entry().Path {
		return nil
	}
	if r.accepted() && d.manager.kind != "" {
		show.Line("dockerd is restarted to forget the runtime " + Name)
		return d.restart(ctx)
	}
	show.Line("dockerd lists the runtime " + Name + " until it is restarted; nothing uses it")
	return nil
}
