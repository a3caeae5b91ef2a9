// Package runtime is the phase that gives the Docker engine gVisor: runsc and the
// programs beside it in a directory of their version, a link to that, and an entry in
// daemon.json that dockerd loads while containers go on running. A runsc that somebody
// has registered already is used as it is.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// Runtime is the phase.
type Runtime struct {
	Target *phase.Target
	// Source is runsc, an archive of a release, or such an archive's URL. SHA512 is the
	// archive's, "" for a file of that name and .sha512 beside it.
	Source, SHA512 string
	// Beside finds the runsc beside quavon when there is no Source.
	Beside func() (string, error)
	// Lib is where programs are put, DaemonJSON the file to edit: "" for the usual ones.
	Lib, DaemonJSON string
	// KVM makes an empty virtual machine, and says which step failed.
	KVM func() (step string, err error)
	// Accepted says that a risk was accepted.
	Accepted func(risk string) bool

	// host and patience are other ones in tests.
	host     host
	patience time.Duration
}

// Names of what is registered.
const (
	DefaultLib = "/usr/local/lib/quavon"
	Name       = "runsc"
	Backend    = "docker-runsc"
	platform   = "--platform=systrap"
)

// linkName is the link to the version that counts, and what versions' names begin with.
const linkName = "runsc"

// Acts of this phase.
const (
	actUse    = "use"
	actUnpack = "unpack"
	actReload = "reload"
)

var (
	_ phase.Phase    = (*Runtime)(nil)
	_ phase.Keeper   = (*Runtime)(nil)
	_ phase.Restorer = (*Runtime)(nil)
)

// Name implements phase.Phase.
func (*Runtime) Name() string { return phase.Runtime }

func (r *Runtime) lib() string {
	if r.Lib != "" {
		return r.Lib
	}
	return DefaultLib
}

// link is the path through which dockerd finds the version that counts.
func (r *Runtime) link() string { return filepath.Join(r.lib(), linkName) }

func (r *Runtime) entry() daemonjson.Entry { return entryOf(r.lib()) }

// entryOf is what a daemon.json has of the gVisor in a directory.
func entryOf(lib string) daemonjson.Entry {
	return daemonjson.Entry{Path: filepath.Join(lib, linkName, "runsc"), Args: []string{platform}}
}

// Files implements phase.Keeper: the link says which version an installation had.
func (r *Runtime) Files() []string { return []string{r.link()} }

// Restore implements phase.Restorer: the link is back already, and its program must be
// there still.
func (r *Runtime) Restore(context.Context, phase.Tx, phase.Reporter) error {
	if _, err := os.Lstat(r.link()); errors.Is(err, fs.ErrNotExist) {
		return nil // not installed by us
	}
	if _, err := os.Stat(r.entry().Path); err != nil {
		return fault.Wrap(err, "the runsc of that time is gone", "install the quavon of that time")
	}
	return nil
}

func (r *Runtime) wanted() bool { return r.Target.Sandbox && r.Target.Backend == Backend }

// Plan implements phase.Phase.
func (r *Runtime) Plan(ctx context.Context) ([]phase.Change, error) {
	if !r.wanted() {
		return nil, nil
	}
	p, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	return append(p.changes(r), r.offer()...), nil
}

// Apply implements phase.Phase.
func (r *Runtime) Apply(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	if !r.wanted() {
		return nil
	}
	p, err := r.plan(ctx)
	if err != nil || p.found != nil {
		return err
	}
	if err := r.place(ctx, p, tx); err != nil {
		return err
	}
	if p.after == nil && !p.reload {
		return nil
	}
	if p.after != nil {
		if p.doubt, err = p.daemon.validate(ctx, p.before, p.after); err != nil {
			return err
		}
	}
	act := phase.Act{Name: actReload, Data: map[string]string{
		"manager": p.daemon.manager.kind, "service": p.daemon.manager.service, "daemonJSON": p.path,
	}}
	return tx.Act(act, func() error {
		if p.after != nil {
			if err := tx.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
				return err
			}
			if err := p.unchanged(); err != nil {
				return err
			}
			if err := tx.WriteFile(p.path, p.after, 0o644); err != nil {
				return err
			}
		}
		return r.load(ctx, p, show)
	})
}

// place puts gVisor where dockerd is told it is.
func (r *Runtime) place(ctx context.Context, p *plan, tx phase.Tx) error {
	if err := tx.MkdirAll(r.lib(), 0o755); err != nil {
		return err
	}
	if p.use {
		if err := r.use(p, tx); err != nil {
			return err
		}
	}
	if p.unpack {
		dir := filepath.Join(r.lib(), p.version)
		act := phase.Act{Name: actUnpack, Key: dir}
		if err := tx.Act(act, func() error { return p.source.unpack(ctx, dir) }); err != nil {
			return err
		}
	}
	if p.link {
		if err := tx.Symlink(p.version, r.link()); err != nil {
			return err
		}
	}
	return r.check(ctx, p)
}

// use notes that this installation uses what is there. It is noted before any of that is
// made, and so is the last to be taken back.
func (r *Runtime) use(p *plan, tx phase.Tx) error {
	u := user{r.Target.Dir, p.path}
	var was user
	_ = readNote(u.file(r.lib()), &was) // one that can't be read is of no use
	act := phase.Act{Name: actUse, Key: r.lib(), Data: map[string]string{"dir": u.Dir, "was": was.DaemonJSON}}
	return tx.Act(act, func() error { return u.note(r.lib()) })
}

// load makes dockerd read the file, and looks whether it has.
func (r *Runtime) load(ctx context.Context, p *plan, show phase.Reporter) error {
	show.Status("dockerd reads " + p.path)
	if err := p.daemon.reload(ctx); err != nil {
		return err
	}
	patience := cmp.Or(r.patience, loadTime)
	err := p.daemon.await(ctx, p.want, patience)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case p.doubt != "": // and it would not start with that file either
		return fault.Wrap(err, "dockerd --validate refuses "+p.path+" as it is: "+p.doubt, "correct "+p.path+", and install again")
	case p.daemon.manager.kind == "" || !r.accepted():
		return err
	}
	show.Line("dockerd did not take it from a reload, and is restarted")
	if err := p.daemon.restart(ctx); err != nil {
		return err
	}
	return p.daemon.await(ctx, p.want, patience)
}

func (r *Runtime) accepted() bool { return r.Accepted != nil && r.Accepted(phase.RestartDocker) }
