package installer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// Report is how an installation ended.
type Report struct {
	Phases []Ended `json:"phases"`
	// Changed says that something is other than before.
	Changed bool `json:"changed"`
	// Standing are things that could not be taken back.
	Standing []journal.Standing `json:"standing,omitempty"`
}

// Ended is a phase's part of a report.
type Ended struct {
	Phase   string         `json:"phase"`
	Outcome Outcome        `json:"outcome"`
	Took    time.Duration  `json:"took"`
	Changes []phase.Change `json:"changes,omitempty"`
}

// together are the phases that stand or fall together: images and stack are only worth
// something when they have been proven. In an upgrade so is gVisor, and what services are
// given: when the test fails, those before ran on the one before.
var (
	together = []string{phase.Images, phase.Compose, phase.Wait, phase.Smoke}
	upgraded = append([]string{phase.Runtime, phase.Secrets, phase.Env}, together...)
)

// undoTime bounds the taking back of a phase after an interruption.
const undoTime = 5 * time.Minute

// begin opens the journal, and takes back what an interrupted command left half done. With
// no error the caller calls end.
func (in *Installer) begin(ctx context.Context) (j *journal.Journal, r *Report, end func() error, err error) {
	release := func() error { return nil }
	if in.Hold != nil {
		if release, err = in.Hold(); err != nil {
			return nil, nil, nil, err
		}
	}
	if j, err = in.open(); err != nil {
		return nil, nil, nil, errors.Join(err, release())
	}
	end = func() error { return errors.Join(j.Close(), release()) }
	r = &Report{}
	if err := in.recover(ctx, j, r); err != nil {
		return nil, r, nil, errors.Join(err, end())
	}
	return j, r, end, nil
}

// Install does what Plan says.
func (in *Installer) Install(ctx context.Context) (r *Report, err error) {
	j, r, end, err := in.begin(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	plan, err := in.propose(ctx, j)
	if err == nil {
		err = in.consent(ctx, plan)
	}
	if err == nil && !in.Yes && len(Changes(plan)) > 0 {
		_, err = in.plan(ctx, j) // with what had to be agreed to first
	}
	if err != nil {
		return r, errors.Join(err, j.Leave())
	}
	phases, err := in.wanted(j)
	if err != nil {
		return r, err
	}
	if err := in.apply(ctx, j, phases, r); err != nil {
		return r, err
	}
	if _, err := j.Keep(in.kept(), in.watched()); err != nil {
		return r, fault.Wrap(err, "keep this installation for a rollback", "make room in "+j.Dir)
	}
	return r, nil
}

// recover takes back what an earlier process left half done.
func (in *Installer) recover(ctx context.Context, j *journal.Journal, r *Report) error {
	phases, err := j.Interrupted()
	if err != nil || len(phases) == 0 {
		return err
	}
	in.View.Line(interrupted(phases) + ": taking that back")
	r.Changed = true
	return in.rollBack(ctx, j, r)
}

// rollBack takes back the phases under way; an error says what could not be.
func (in *Installer) rollBack(ctx context.Context, j *journal.Journal, r *Report) error {
	standing, err := j.Rollback(ctx)
	r.Standing = append(r.Standing, standing...)
	if err != nil {
		return fault.Wrap(err, "take back what was begun", "correct that, then "+in.Again)
	}
	return stands(standing, in.Again)
}

// stands is an error that lists what should be gone.
func stands(all []journal.Standing, again string) error {
	var what, do []string
	for _, s := range all {
		if s.Failed {
			what = append(what, s.What)
		}
		if s.Do != "" {
			do = append(do, s.Do)
		}
	}
	if len(what) == 0 {
		return nil
	}
	return fault.New("could not be taken back: "+strings.Join(what, "; "), strings.Join(append(do, again), "; then "))
}

// apply makes the phases stand, one by one, the last of them together; in an upgrade all
// that change something.
func (in *Installer) apply(ctx context.Context, j *journal.Journal, phases []phase.Phase, r *Report) error {
	whole := together
	if _, proven := j.Done(in.Phases[len(in.Phases)-1].Name()); proven {
		whole = upgraded
	}
	for len(phases) > 0 {
		n := 1
		if slices.Contains(whole, phases[0].Name()) {
			n = len(phases)
		}
		if err := in.applyTogether(ctx, j, phases[:n], r); err != nil {
			return err
		}
		phases = phases[n:]
	}
	return nil
}

func (in *Installer) applyTogether(ctx context.Context, j *journal.Journal, phases []phase.Phase, r *Report) error {
	tx, first := j.Begin(), len(r.Phases)
	for _, p := range phases {
		e, err := in.applyOne(ctx, p, tx)
		r.Phases = append(r.Phases, e)
		if err != nil {
			return in.failed(ctx, j, r, first, in.failing(p.Name(), err))
		}
	}
	if err := tx.Commit(); err != nil {
		return in.failed(ctx, j, r, first, fault.Wrap(err, "note what was done", "make room in "+j.Dir))
	}
	r.Changed = r.Changed || slices.ContainsFunc(r.Phases[first:], func(e Ended) bool { return e.Outcome == Changed })
	return nil
}

// failing is named, and says how to keep services to look at: with them their logs go.
func (in *Installer) failing(name string, err error) error {
	hint := fault.Hint(err)
	if !in.Retain && name != phase.Images && slices.Contains(together, name) {
		hint = strings.TrimPrefix(hint+"; to keep the services as they failed, add --retain", "; ")
	}
	return fault.Wrap(err, "phase "+name, hint)
}

// applyOne plans again, as the phases before may have changed what there is to do.
func (in *Installer) applyOne(ctx context.Context, p phase.Phase, tx *journal.Tx) (e Ended, err error) {
	start := time.Now()
	e = Ended{Phase: p.Name(), Outcome: Failed}
	in.View.Begin(p.Name())
	defer func() {
		e.Took = time.Since(start)
		in.View.End(p.Name(), e.Outcome, e.Took)
	}()
	if err := context.Cause(ctx); err != nil {
		return e, err
	}
	if err := tx.Enter(p.Name()); err != nil {
		return e, err
	}
	changes, err := p.Plan(ctx)
	if err != nil {
		return e, err
	}
	before := tx.Steps()
	if len(changes) > 0 {
		err = p.Apply(ctx, tx, in.View)
	}
	if err != nil {
		return e, err
	}
	for _, c := range changes {
		in.View.Changed(c)
	}
	e.Outcome = Unchanged
	if tx.Steps() > before || len(changing(changes)) > 0 {
		e.Outcome, e.Changes = Changed, changing(changes)
	}
	return e, nil
}

// failed takes back what was under way, and says what stands.
func (in *Installer) failed(ctx context.Context, j *journal.Journal, r *Report, first int, cause error) error {
	var done []string
	for _, e := range r.Phases[:first] {
		if e.Outcome == Changed {
			done = append(done, e.Phase)
		}
	}
	if in.Retain {
		in.View.Line("left as it is, as --retain says; another installation takes it back first")
		return cause
	}
	clean, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), undoTime, errors.New("it was not taken back in time"))
	defer cancel()
	if in.Hurry != nil {
		defer context.AfterFunc(hurried(clean, in.Hurry), cancel)()
	}
	err := in.rollBack(clean, j, r)
	var undone []string
	for i := first; i < len(r.Phases); i++ {
		if r.Phases[i].Outcome == Changed {
			r.Phases[i].Outcome = Undone
			undone = append(undone, r.Phases[i].Phase)
		}
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	in.View.Line(standsLine(r.Phases[len(r.Phases)-1].Phase, undone, done))
	return errors.Join(cause, j.Leave())
}

func standsLine(name string, undone, done []string) string {
	line := "phase " + name + " was taken back"
	if len(undone) > 0 {
		line += ", with " + strings.Join(undone, ", ")
	}
	if len(done) > 0 {
		line += "; what stands: " + strings.Join(done, ", ")
	}
	return line
}

// hurried ends when hurry does.
func hurried(ctx context.Context, hurry <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		defer cancel(errors.New("interrupted again"))
		select {
		case <-hurry:
		case <-ctx.Done():
		}
	}()
	return ctx
}

// kept are the files of a generation.
func (in *Installer) kept() []string {
	var all []string
	for _, p := range in.Phases {
		if k, ok := p.(phase.Keeper); ok {
			all = append(all, k.Files()...)
		}
	}
	return all
}

// watched are the operator's files that bear on a generation.
func (in *Installer) watched() []string {
	var all []string
	for _, p := range in.Phases {
		if w, ok := p.(phase.Watcher); ok {
			all = append(all, w.Watched()...)
		}
	}
	return all
}
