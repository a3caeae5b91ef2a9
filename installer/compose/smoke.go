package compose

import (
	"context"

	"github.com/quavon/quavon/installer/phase"
)

// smoke is the phase that tests what came up.
type smoke struct{ *stack }

var _ phase.Phase = (*smoke)(nil)

// Name implements phase.Phase.
func (*smoke) Name() string { return phase.Smoke }

// Plan implements phase.Phase.
func (s *smoke) Plan(context.Context) ([]phase.Change, error) {
	if s.Smoke == nil || !s.Target.Sandbox {
		return nil, nil
	}
	return []phase.Change{{Action: phase.Check, Target: "sandboxes", Summary: "test what they isolate, in the running stack"}}, nil
}

// Apply implements phase.Phase.
func (s *smoke) Apply(ctx context.Context, _ phase.Tx, show phase.Reporter) error {
	if s.Smoke == nil || !s.Target.Sandbox {
		return nil
	}
	return s.Smoke(ctx, show)
}

// Undo implements phase.Phase.
func (*smoke) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error { return nil }
