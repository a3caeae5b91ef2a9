package commands

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/fix"
	"github.com/quavon/quavon/runner/job"
)

// runFixCheck runs the policy without and with the patch and compares.
func runFixCheck(ctx context.Context, o *fixOptions) error {
	c, err := o.compare(ctx)
	if err != nil {
		return err
	}
	if o.Output == "json" {
		err = o.writeJSON(c)
	} else {
		err = o.fixText(c)
	}
	if err != nil {
		return err
	}
	switch {
	case !c.Applied:
		o.say("the patch does not apply", "make it anew for the workspace as it is: git diff")
	case !c.Broke():
		return nil
	}
	return &exitError{Code: exitFail}
}

func (o *fixOptions) compare(ctx context.Context) (fix.Comparison, error) {
	none := fix.Comparison{}
	patch, err := o.readPatch()
	if err != nil {
		return none, err
	}
	text, err := bounded.ReadFile(o.Policy, fix.MaxPolicy)
	if err != nil {
		return none, fault.Wrap(err, "read the policy", "correct --policy")
	}
	policy, err := fix.ParsePolicy(text)
	if err != nil {
		return none, err
	}
	before, err := o.try(ctx, policy, nil)
	if err != nil {
		return none, err
	}
	if name, undecided := fix.Undecided(before, nil); undecided {
		return none, fault.New(fmt.Sprintf("without the patch %q does not work, so nothing can be compared", name),
			"look at it with --logs")
	}
	after, err := o.try(ctx, policy, patch)
	if err != nil {
		return none, err
	}
	if name, undecided := fix.Undecided(before, after); undecided {
		return none, fault.New(fmt.Sprintf("with the patch %q was not run", name),
			"raise --timeout or another limit; an image needs git for the patch; see --logs")
	}
	return fix.Compare(before, after), nil
}

// maxPatch bounds a patch, in bytes.
const maxPatch = 64 << 20

func (o *fixOptions) readPatch() (patch []byte, err error) {
	if o.Patch == "-" {
		patch, err = bounded.ReadAll(o.IO.In, maxPatch)
	} else {
		patch, err = bounded.ReadFile(o.Patch, maxPatch)
	}
	if err == nil && len(bytes.TrimSpace(patch)) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fault.Wrap(err, "read the patch", "name a file as git diff writes it")
	}
	return patch, nil
}

// try runs the policy's commands in one job, with the patch unless it is nil.
func (o *fixOptions) try(ctx context.Context, policy fix.Policy, patch []byte) ([]fix.Ran, error) {
	ro := &runOptions{
		program: o.program, Image: cmp.Or(o.Image, policy.Image), Workspace: o.Workspace, Backend: o.Backend, Runsc: o.Runsc,
		CPUs: o.CPUs, Memory: o.Memory, Pids: 4096, Disk: o.Disk, OutputLimit: 1 << 30, Timeout: o.Timeout,
		Grace: runner.DefaultGrace, Net: o.Net, NetCIDR: o.NetCIDR, asked: o.asked,
	}
	r, err := ro.runner()
	if err != nil {
		return nil, err
	}
	if err := ro.findImage(ctx, r); err != nil {
		return nil, err
	}
	if r.Door, err = ro.door(); err != nil {
		return nil, err
	}
	plan := policy.Plan(patch != nil, len(o.Net) > 0)
	spec := job.Spec{
		ID: "fix-" + strings.ToLower(rand.Text()[:16]), Root: ro.root(), Limits: ro.limits(r.Backend.Policies()), Steps: plan.Steps,
	}
	if err := ro.addMounts(&spec); err != nil {
		return nil, err
	}
	if len(o.Net) > 0 {
		spec.Allow = policy.Allow
	}
	for i := range spec.Steps {
		spec.Steps[i].Env = append(ro.environ(spec.Mounts), spec.Steps[i].Env...)
	}
	return o.run(ctx, r, spec, plan, patch)
}

func (o *fixOptions) run(ctx context.Context, r *runner.Runner, spec job.Spec, plan fix.Plan, patch []byte) ([]fix.Ran, error) {
	reaper := &reaping{Backend: r.Backend, log: o.Log}
	r.Backend = reaper
	streams := runner.Streams{Stdin: bytes.NewReader(patch), Hurry: o.Hurry}
	if o.Logs {
		streams.Stdout, streams.Stderr = o.IO.ErrOut, o.IO.ErrOut
	}
	res, err := r.Run(ctx, spec, streams)
	reaper.wait()
	if err != nil {
		return nil, err
	}
	if res.Reason == job.ReasonCancelled {
		return nil, &exitError{exitCodeFor(ctx, res), fault.New("the check was interrupted", "")}
	}
	if what := refusals(res); what != "" {
		o.say(what, "it takes a rule of the policy's allow and one of --net; docs/egress.md explains the reasons")
	}
	ran := plan.Outcomes(res)
	if res.Reason != job.ReasonNone && !slices.ContainsFunc(ran, func(r fix.Ran) bool { return r.Outcome == fix.TimedOut }) {
		o.say(fmt.Sprintf("%s: %s", res.Reason, res.Message), "")
	}
	return ran, nil
}
