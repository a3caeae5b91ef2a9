// Package installer takes a host from nothing to a proven sandbox, and back. It orders
// phases, asks, notes in a journal what is done, and takes back what failed; what the
// phases do, and how all is shown, is handed in.
package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// View shows what happens.
type View interface {
	phase.Reporter
	// Begin says that a phase begins.
	Begin(name string)
	// Changed says that a change was made, or that a check held.
	Changed(c phase.Change)
	// End says how a phase ended, and how long it took.
	End(name string, o Outcome, took time.Duration)
}

// Outcome is what became of a phase.
type Outcome string

// Outcomes.
const (
	// Unchanged phases found all as it should be.
	Unchanged Outcome = "unchanged"
	Changed   Outcome = "changed"
	Failed    Outcome = "failed"
	// Undone phases were made, and taken back because a later one failed.
	Undone Outcome = "undone"
)

// Installer is one installation's.
type Installer struct {
	Target *phase.Target
	// Phases are in the order of phase.Names.
	Phases []phase.Phase
	View   View
	// Journal is its place and what it needs; Undo is set by the installer.
	Journal journal.Options
	// Ask asks a person, nil when there is nobody.
	Ask func(ctx context.Context, question string) (bool, error)
	// Hold keeps others from what this installation shares with them, nil for nothing.
	Hold func() (release func() error, err error)
	// Accept are the risks that were accepted by name.
	Accept []string
	// Yes answers what isn't a risk.
	Yes bool
	// Retain leaves a failed phase as it is.
	Retain bool
	// From is the phase to begin with, "" for the first.
	From string
	// Again is the command to type for another try.
	Again string
	// Hurry is closed when nobody wants to wait for a clean end; nil for never.
	Hurry <-chan struct{}
}

// Planned is a phase's part of a plan.
type Planned struct {
	Phase   string         `json:"phase"`
	Changes []phase.Change `json:"changes"`
}

// Plan says what Install would do.
func (in *Installer) Plan(ctx context.Context) ([]Planned, error) {
	j, err := journal.Peek(in.Journal)
	if err != nil {
		return nil, err
	}
	if phases, err := j.Interrupted(); err != nil {
		return nil, err
	} else if len(phases) > 0 {
		in.View.Line(interrupted(phases) + "; an installation takes that back first")
	}
	return in.propose(ctx, j)
}

func interrupted(phases []string) string {
	return "the installation before was interrupted in phase " + phases[len(phases)-1]
}

func (in *Installer) plan(ctx context.Context, j *journal.Journal) ([]Planned, error) {
	phases, err := in.wanted(j)
	if err != nil {
		return nil, err
	}
	var all []Planned
	for _, p := range phases {
		changes, err := p.Plan(ctx)
		if err != nil {
			return all, named(p.Name(), err)
		}
		all = append(all, Planned{p.Name(), changes})
	}
	return all, nil
}

// wanted are the phases from From on; those before it must stand.
func (in *Installer) wanted(j *journal.Journal) ([]phase.Phase, error) {
	if in.From == "" {
		return in.Phases, nil
	}
	for i, p := range in.Phases {
		if p.Name() == in.From {
			return in.Phases[i:], nil
		}
		if _, done := j.Done(p.Name()); !done {
			return nil, fault.New(fmt.Sprintf("phase %s can't be the first: %s was never done here", in.From, p.Name()),
				"begin with --from-phase "+p.Name()+", or leave it out")
		}
	}
	return nil, fault.New(fmt.Sprintf("there is no phase %q", in.From), "use one of "+strings.Join(phase.Names, ", "))
}

func named(name string, err error) error {
	return fault.Wrap(err, "phase "+name, fault.Hint(err))
}

// Changes are those of a plan that change something.
func Changes(plan []Planned) []phase.Change {
	var all []phase.Change
	for _, p := range plan {
		all = append(all, changing(p.Changes)...)
	}
	return all
}

func changing(changes []phase.Change) []phase.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c phase.Change) bool { return c.Action == phase.Check })
}

func (in *Installer) find(name string) phase.Phase {
	for _, p := range in.Phases {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// open opens the journal, with phases to undo acts.
func (in *Installer) open() (*journal.Journal, error) {
	in.Journal.Undo = func(ctx context.Context, name string, act phase.Act, how phase.How) error {
		p := in.find(name)
		if p == nil {
			return fault.New("this quavon has no phase "+name, "use the quavon that installed it")
		}
		return p.Undo(ctx, act, how, in.View)
	}
	return journal.Open(in.Journal)
}
