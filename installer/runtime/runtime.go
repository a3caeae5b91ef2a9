// Package runtime is the phase that gives the Docker engine gVisor: runsc and the
// programs beside it in a directory of their version, a link to that, and an entry in
// daemon.json that dockerd loads while containers go on running. A runsc that somebody
// has registered already is used as it is.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

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
}

// Names of what is registered.
const (
	DefaultLib = "/usr/local/lib/quavon"
	Name       = "runsc"
	Backend    = "docker-runsc"
	platform   = "--platform=systrap"
)

const (
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
func (r *Runtime) link() string { return filepath.Join(r.lib(), "runsc") }

func (r *Runtime) entry() daemonjson.Entry {
	return daemonjson.Entry{Path: filepath.Join(r.link(), "runsc"), Args: []string{platform}}
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

// plan is what is to be done.
type plan struct {
	daemon *daemon
	// found is a runtime of others that is used as it is.
	found *registered
	// version is a directory's name; unpack says that it isn't there yet.
	source  *source
	version string
	unpack  bool
	link    bool
	was     string
	// before and after are daemon.json; reload says that dockerd must read it.
	path          string
	before, after []byte
	note          string
	reload        bool
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
	var changes []phase.Change
	add := func(a phase.Action, target, summary, diff string) {
		changes = append(changes, phase.Change{Action: a, Target: target, Summary: summary, Diff: diff})
	}
	if p.found != nil {
		add(phase.Check, Name, "is registered as "+p.found.String()+", and used as it is", "")
	} else if p.unpack {
		add(phase.Create, filepath.Join(r.lib(), p.version), "gVisor from "+p.source.path, "")
	}
	if p.link {
		action := phase.Edit
		if p.was == "" {
			action = phase.Create
		}
		add(action, r.link(), "point it at "+p.version, "")
	}
	if p.after != nil {
		action := phase.Edit
		if p.before == nil {
			action = phase.Create
		}
		add(action, p.path, "register the runtime "+Name+p.note, udiff.Unified("before", "after", string(p.before), string(p.after)))
	}
	if p.reload {
		add(phase.Run, "dockerd", "read "+p.path+" again; containers go on running", "")
	}
	return append(changes, r.offer()...), nil
}

// offer says that virtual machines would work here.
func (r *Runtime) offer() []phase.Change {
	if r.KVM == nil {
		return nil
	}
	if _, err := r.KVM(); err != nil {
		return nil
	}
	return []phase.Change{{
		Action: phase.Check, Target: "/dev/kvm", Summary: "makes virtual machines: the backend firecracker could be used here, with " +
			"firecracker and its jailer, a guest kernel and root file systems (docs/install.md)",
	}}
}

func (r *Runtime) plan(ctx context.Context) (*plan, error) {
	d, err := findDaemon(ctx, r.Target.Socket)
	if err != nil {
		return nil, err
	}
	info, err := d.info(ctx)
	if err != nil {
		return nil, err
	}
	if err := info.usable(); err != nil {
		return nil, err
	}
	p := &plan{daemon: d, path: r.DaemonJSON}
	have, listed := info.Runtimes[Name]
	if listed && have.Path != r.entry().Path {
		p.found = &have
		return p, have.check()
	}
	if err := d.sameRoot(); err != nil {
		return nil, err
	}
	if p.path == "" {
		p.path = d.configFile()
	}
	if err := p.edit(r.entry()); err != nil {
		return nil, err
	}
	p.reload = p.after != nil || !listed || !slices.Equal(have.Args, r.entry().Args)
	return p, r.planProgram(ctx, p)
}

func (r *Runtime) planProgram(ctx context.Context, p *plan) (err error) {
	if p.source, err = r.source(ctx); err != nil {
		return err
	}
	p.version = "runsc-" + p.source.version
	if _, err := os.Stat(filepath.Join(r.lib(), p.version)); errors.Is(err, fs.ErrNotExist) {
		p.unpack = true
	} else if err != nil {
		return err
	}
	to, err := os.Readlink(r.link())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, r.link()+" is in the way", "move it away")
	}
	p.was, p.link = to, to != p.version
	return nil
}

// edit works out daemon.json.
func (p *plan) edit(e daemonjson.Entry) error {
	wrong := func(err error) error { return fault.Wrap(err, p.path, fault.Hint(err)) }
	data, err := os.ReadFile(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrong(err)
	}
	f, err := daemonjson.Parse(data)
	if err != nil {
		return wrong(err)
	}
	if refused := f.Refusals(p.daemon.args); len(refused) > 0 {
		return wrong(fault.New("dockerd would not start with it: "+strings.Join(refused, "; "), "correct "+p.path))
	}
	if twice := f.Twice(p.daemon.args); len(twice) > 0 {
		return wrong(fault.New("dockerd reads it no more, as it has flags for the same: "+strings.Join(twice, ", "),
			"keep each setting in one place: `systemctl edit docker` for flags, or daemon.json"))
	}
	if raw, there := f.Runtime(Name); there && !f.Has(Name, e) {
		return wrong(fault.New(fmt.Sprintf("it registers %s as %.200s, which dockerd doesn't have", Name, raw),
			"`systemctl reload docker` when it is right, else remove the entry"))
	}
	if err := f.SetRuntime(Name, e); err != nil {
		return wrong(err)
	}
	if now := f.Bytes(); string(now) != string(data) {
		p.before, p.after = data, now
		if f.Converted != "" {
			p.note = "; it was " + f.Converted + " and will be UTF-8"
		}
	}
	return nil
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
	if err := tx.MkdirAll(r.lib(), 0o755); err != nil {
		return err
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
	if err := r.check(ctx, p); err != nil {
		return err
	}
	if p.after == nil && !p.reload {
		return nil
	}
	if err := p.daemon.validate(ctx, p.before, p.after); err != nil {
		return err
	}
	return tx.Act(phase.Act{Name: actReload}, func() error {
		if p.after != nil {
			if err := tx.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
				return err
			}
			if err := tx.WriteFile(p.path, p.after, 0o644); err != nil {
				return err
			}
		}
		return r.load(ctx, p, show)
	})
}

// load makes dockerd read the file, and looks whether it has.
func (r *Runtime) load(ctx context.Context, p *plan, show phase.Reporter) error {
	show.Status("dockerd reads " + p.path)
	if err := p.daemon.reload(ctx); err != nil {
		return err
	}
	err := p.daemon.await(ctx, r.entry())
	if err == nil || ctx.Err() != nil || r.Accepted == nil || !r.Accepted(phase.RestartDocker) {
		return err
	}
	show.Line("dockerd did not take it from a reload, and is restarted")
	if err := p.daemon.restart(ctx); err != nil {
		return err
	}
	return p.daemon.await(ctx, r.entry())
}

// Undo implements phase.Phase.
func (r *Runtime) Undo(ctx context.Context, act phase.Act, how phase.How, show phase.Reporter) error {
	if act.Name == actUnpack {
		// A link that others made to it keeps it.
		if to, err := os.Readlink(r.link()); err == nil && filepath.Join(r.lib(), to) == act.Key {
			return nil
		}
		return errors.Join(os.RemoveAll(staging(act.Key)), os.RemoveAll(act.Key))
	}
	d, err := findDaemon(ctx, r.Target.Socket)
	if err != nil {
		if how == phase.Failed && startAgain(ctx, show) {
			return nil
		}
		return nil // a dockerd that doesn't run reads the file when it starts
	}
	if err := d.reload(ctx); err != nil {
		return err
	}
	return r.forget(ctx, d, show)
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
	if r.Accepted != nil && r.Accepted(phase.RestartDocker) {
		show.Line("dockerd is restarted to forget the runtime " + Name)
		return d.restart(ctx)
	}
	show.Line("dockerd lists the runtime " + Name + " until it is restarted; nothing uses it")
	return nil
}
