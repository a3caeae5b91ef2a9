package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/runner/fault"
)

// propose plans. Nothing is fetched for it unless somebody has agreed already.
func (in *Installer) propose(ctx context.Context, j *journal.Journal) ([]Planned, error) {
	in.Target.Local = !in.Yes
	defer func() { in.Target.Local = false }()
	return in.plan(ctx, j)
}

// consent asks for what the plan needs.
func (in *Installer) consent(ctx context.Context, plan []Planned) error {
	changes := Changes(plan)
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if c.Risk == "" || slices.Contains(in.Accept, c.Risk) {
			continue
		}
		flag := "--accept-risk=" + c.Risk
		if in.Ask == nil {
			return fault.New(fmt.Sprintf("%s: %s", c.Target, c.RiskWhy), "when that may be, add "+flag)
		}
		if yes, err := in.Ask(ctx, fmt.Sprintf("%s: %s. Go on? (%s)", c.Target, c.RiskWhy, flag)); err != nil || !yes {
			return errors.Join(err, ErrDeclined)
		}
		in.Accept = append(in.Accept, c.Risk)
	}
	if in.Yes {
		return nil
	}
	if in.Ask == nil {
		return fault.New("nobody can be asked whether to make these changes, as there is no terminal",
			"look at them with --dry-run, then add --yes")
	}
	if yes, err := in.Ask(ctx, "Make these changes?"); err != nil || !yes {
		return errors.Join(err, ErrDeclined)
	}
	return nil
}

// ErrDeclined is what became of a question.
var ErrDeclined = fault.New("not confirmed: none of these changes was made", "")
