package installer

import (
	"context"
	"errors"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// PlanUninstall says what Uninstall would take back.
func (in *Installer) PlanUninstall(purge bool) ([]phase.Change, error) {
	j, err := journal.Peek(in.Journal)
	if err != nil {
		return nil, err
	}
	phases, err := j.Interrupted()
	switch {
	case err != nil:
		return nil, err
	case len(phases) > 0:
		in.View.Line(interrupted(phases) + "; an uninstall takes that back first")
	case j.Empty():
		in.View.Line("nothing is installed in " + in.Target.Dir)
	}
	return j.Plan(purge), nil
}

// Uninstall takes back what was installed and nothing else. Data stays, but with purge.
func (in *Installer) Uninstall(ctx context.Context, purge bool) (r *Report, err error) {
	if !journal.Exists(in.Journal) {
		return &Report{}, journal.Sweep(in.Journal) // nothing is made to look there
	}
	j, r, end, err := in.begin(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	plan := j.Plan(purge)
	if err := in.consent(ctx, []Planned{{"uninstall", plan}}); err != nil {
		return r, errors.Join(err, j.Leave())
	}
	r.Changed = r.Changed || len(changing(plan)) > 0
	standing, err := j.Uninstall(ctx, purge)
	r.Standing = append(r.Standing, standing...)
	if err == nil {
		err = stands(standing, in.Again)
	}
	if err != nil {
		return r, fault.Wrap(err, "uninstall", fault.Hint(err))
	}
	return r, j.Leave()
}

// Rollback goes back to the installation before the one that stands.
func (in *Installer) Rollback(ctx context.Context) (r *Report, err error) {
	if !journal.Exists(in.Journal) {
		return &Report{}, in.notInstalled()
	}
	j, r, end, err := in.begin(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if !j.Installed() {
		return r, errors.Join(in.notInstalled(), j.Leave())
	}
	g, ok, err := j.Previous()
	if err != nil || !ok {
		return r, errors.Join(err, j.Leave(), noGeneration(ok))
	}
	if err := in.tellDiffering(g); err != nil {
		return r, err
	}
	question := phase.Change{Action: phase.Edit, Target: "installation", Summary: "go back to that of quavon " + g.Version}
	if err := in.consent(ctx, []Planned{{"rollback", []phase.Change{question}}}); err != nil {
		return r, err
	}
	in.View.Line("going back to what quavon " + g.Version + " installed on " + g.At.Format("2006-01-02 15:04 MST"))
	if err := in.goTo(ctx, j, g, r); err != nil {
		return r, err
	}
	r.Changed = true
	return r, nil
}

// tellDiffering tells of the operator's own files, which no rollback touches.
func (in *Installer) tellDiffering(g journal.Generation) error {
	differing, err := g.Differing()
	for _, path := range differing {
		in.View.Line(path + " isn't what it was when quavon " + g.Version + " was installed: it is left alone, and counts for the services")
	}
	return err
}

func (in *Installer) notInstalled() error {
	return fault.New("nothing is installed in "+in.Target.Dir, "`quavon install`, or --dir with the directory of the installation")
}

func noGeneration(ok bool) error {
	if ok {
		return nil
	}
	return fault.New("there is no earlier installation to go back to", "`quavon uninstall` takes this one back")
}

// goTo puts a generation's files in place, and brings the host in line with them.
func (in *Installer) goTo(ctx context.Context, j *journal.Journal, g journal.Generation, r *Report) error {
	tx := j.Begin()
	e := &restoring{in: in, tx: tx, g: g}
	for _, p := range in.Phases {
		_, restores := p.(phase.Restorer)
		if !restores && p.Name() != phase.Wait && p.Name() != phase.Smoke {
			continue
		}
		ended, err := in.applyOne(ctx, e.as(p), tx)
		r.Phases = append(r.Phases, ended)
		if err != nil {
			return in.failed(ctx, j, r, 0, named(p.Name(), err))
		}
	}
	if err := tx.CommitTo(g); err != nil {
		return in.failed(ctx, j, r, 0, err)
	}
	return nil
}

// restoring makes phases of a rollback: the first puts the files back.
type restoring struct {
	in   *Installer
	tx   *journal.Tx
	g    journal.Generation
	done bool
}

func (e *restoring) as(p phase.Phase) phase.Phase { return &restored{p, e} }

type restored struct {
	phase.Phase
	e *restoring
}

// Plan implements phase.Phase.
func (p *restored) Plan(ctx context.Context) ([]phase.Change, error) {
	if _, ok := p.Phase.(phase.Restorer); !ok {
		return p.Phase.Plan(ctx)
	}
	return []phase.Change{{Action: phase.Edit, Target: p.Name(), Summary: "as quavon " + p.e.g.Version + " left it"}}, nil
}

// Apply implements phase.Phase.
func (p *restored) Apply(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	if !p.e.done {
		if err := p.e.tx.Restore(p.e.g); err != nil {
			return err
		}
		p.e.done = true
	}
	if r, ok := p.Phase.(phase.Restorer); ok {
		return r.Restore(ctx, tx, show)
	}
	return p.Phase.Apply(ctx, tx, show)
}
