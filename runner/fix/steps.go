package fix

import (
	"maps"
	"slices"

	"github.com/quavon/quavon/runner/job"
)

// Kind is what a command is for.
type Kind string

// Kinds of command.
const (
	Apply Kind = "apply"
	Setup Kind = "setup"
	Test  Kind = "test"
	Lint  Kind = "lint"
)

// Plan is a policy's commands as the steps of one job.
type Plan struct {
	Steps []job.Step
	kinds []Kind
}

// Plan makes the job's steps. With a patch the first one applies it, and reads it from
// its stdin; setup comes after, since a patch may change what it installs. That step
// has the network of those that follow, because only first steps may have one.
func (p Policy) Plan(patched, network bool) Plan {
	var plan Plan
	open := job.NetworkNone
	if network && len(p.Setup) > 0 {
		open = job.NetworkRegistries
	}
	if patched {
		plan.add(Apply, job.Step{Name: "apply the patch", Network: open, Argv: []string{"/bin/sh", "-c", applyPatch}})
	}
	for _, c := range p.Setup {
		plan.add(Setup, p.step(c, open, false))
	}
	for _, c := range p.Test {
		plan.add(Test, p.step(c, job.NetworkNone, true))
	}
	for _, c := range p.Lint {
		plan.add(Lint, p.step(c, job.NetworkNone, true))
	}
	return plan
}

// applyPatch reads the patch from stdin. What .git points to isn't in the sandbox when the
// workspace is a linked worktree or a submodule: then git does without.
const applyPatch = `git rev-parse --git-dir >/dev/null 2>&1 || export GIT_DIR=/dev/null
exec git apply --whitespace=nowarn -`

func (plan *Plan) add(k Kind, s job.Step) {
	plan.Steps, plan.kinds = append(plan.Steps, s), append(plan.kinds, k)
}

func (p Policy) step(c Command, n job.Network, goOn bool) job.Step {
	s := job.Step{Name: c.Name, Argv: []string{"/bin/sh", "-c", c.Run}, Timeout: c.Timeout, Network: n, ContinueOnFailure: goOn}
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		s.Env = append(s.Env, k+"="+p.Env[k])
	}
	return s
}

// Outcome is how a command ended.
type Outcome string

// Outcomes.
const (
	Passed   Outcome = "passed"
	Failed   Outcome = "failed"
	TimedOut Outcome = "timed out"
	// NotRun: the job had ended before.
	NotRun Outcome = "not run"
)

// Ran is what became of one command.
type Ran struct {
	Kind    Kind
	Name    string
	Outcome Outcome
}

// Outcomes tells how the plan's commands fared in a job.
func (plan Plan) Outcomes(res job.Result) []Ran {
	list := make([]Ran, len(plan.Steps))
	for i, s := range plan.Steps {
		list[i] = Ran{plan.kinds[i], s.Name, NotRun}
		if i < len(res.Steps) {
			list[i].Outcome = outcome(res.Steps[i])
		}
		if plan.kinds[i] == Apply && list[i].Outcome == Failed && res.Steps[i].Exit == exitNotFound {
			list[i].Outcome = NotRun
		}
	}
	return list
}

// exitNotFound is the shell's exit code for a program that isn't there.
const exitNotFound = 127

func outcome(s job.StepResult) Outcome {
	switch {
	case s.Reason == job.ReasonTimeoutWall:
		return TimedOut
	case s.Reason != job.ReasonNone:
		return NotRun
	case s.Exit == 0:
		return Passed
	}
	return Failed
}
