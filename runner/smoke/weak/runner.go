package weak

import (
	"context"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/job"
)

// Runner runs jobs in the sandboxes of an arm, by the way of every job.
type Runner struct {
	runner.Runner
	arm     Arm
	lab     Lab
	release func()
}

// Runner makes a runner that differs from another in nothing but the arm.
func (a Arm) Runner(l Lab, like *runner.Runner) (*Runner, error) {
	b, release, err := a.backend(l)
	if err != nil {
		return nil, err
	}
	r := &Runner{Runner: *like, arm: a, lab: l, release: release}
	r.Backend = b
	if a.door {
		r.Door = Door{l.Dial}
	}
	return r, nil
}

// Run runs a job.
func (r *Runner) Run(ctx context.Context, s job.Spec, streams runner.Streams) (job.Result, error) {
	if r.arm.job != nil {
		r.arm.job(r.lab, &s)
	}
	return r.Runner.Run(ctx, s, streams)
}

// WithDoor is the runner with another way out, unless the arm has its own.
func (r *Runner) WithDoor(d runner.Door) *Runner {
	with := *r
	if !r.arm.door {
		with.Door = d
	}
	return &with
}

// Close lets go of what the arm holds, once its sandboxes have ended.
func (r *Runner) Close() { r.release() }
