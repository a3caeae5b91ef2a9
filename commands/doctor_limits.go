package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// limitTry is a job that a limit must end, or stop from going on.
type limitTry struct {
	name, script string
	limits       job.Limits
	// policy is what the backend must enforce; "" is always enforced.
	policy sandbox.Policy
	held   func(res job.Result, out string) bool
}

// ended is a job that the runner says a limit has ended.
func ended(by job.Reason) func(job.Result, string) bool {
	return func(res job.Result, _ string) bool { return res.Reason == by }
}

// full is a job that could not write on, as the kernel of its sandbox said.
func full(res job.Result, out string) bool {
	return res.Reason == job.ReasonLimitDisk || res.Exit != 0 && strings.Contains(out, "No space left on device")
}

// forks makes more processes than the limit allows, then waits for them.
const forks = "i=0; while [ $i -lt 300 ]; do sleep 10 & i=$((i+1)); done; wait"

func limitTries() []limitTry {
	const mib = 1 << 20
	const patience = 20 * time.Second
	return []limitTry{
		{"wall clock", "sleep 60", job.Limits{Wall: time.Second}, "", ended(job.ReasonTimeoutWall)},
		{"output", "yes", job.Limits{Output: mib, Wall: patience}, "", ended(job.ReasonLimitOutput)},
		{"memory", "tail /dev/zero", job.Limits{Memory: 256 * mib, Wall: patience}, sandbox.PolicyMemory, ended(job.ReasonLimitMemory)},
		{"processes", forks, job.Limits{Pids: 32, Wall: patience}, sandbox.PolicyPids, ended(job.ReasonLimitPids)},
		{"disk", "dd if=/dev/zero of=/tmp/x bs=1M count=64", job.Limits{Disk: 16 * mib, Wall: patience}, sandbox.PolicyDisk, full},
	}
}

// limits reaches each limit once, and then looks for what the jobs have left behind.
func (s *localSandbox) limits(ctx context.Context) doctor.Finding {
	var held, broken, unsure, ids []string
	policies := s.runner.Backend.Policies()
	for _, t := range limitTries() {
		if why, ok := policies[t.policy]; t.policy != "" && (!ok || why != sandbox.Enforced) {
			unsure = append(unsure, t.name+": the backend can't enforce it here: "+why)
			continue
		}
		res, out, err := s.job(ctx, "limit", t.script, t.limits)
		if res.ID != "" {
			ids = append(ids, res.ID)
		}
		switch {
		case err != nil:
			unsure = append(unsure, t.name+": "+err.Error())
		case !t.held(res, out):
			broken = append(broken, fmt.Sprintf("%s: the job ended with %d, reason %q, instead of by the limit", t.name, res.Exit,
				res.Reason))
		default:
			held = append(held, t.name)
		}
	}
	left, err := s.leftovers(ctx, ids)
	if err != nil {
		unsure = append(unsure, "what is left behind: "+err.Error())
	}
	return limitsFinding(held, broken, unsure, left)
}

func limitsFinding(held, broken, unsure, left []string) doctor.Finding {
	switch {
	case len(broken) > 0:
		return doctor.Failed("a limit doesn't hold", "", slices.Concat(broken, left, unsure)...)
	case len(left) > 0:
		return doctor.Failed("jobs have left something behind", "start the runner again, which removes it; then report it",
			append(left, unsure...)...)
	case len(unsure) > 0:
		f := doctor.Unknown(errors.New("not every limit could be tried"))
		f.Details = unsure
		return f
	}
	return doctor.Passed("held: " + strings.Join(held, ", ") + "; nothing was left behind")
}
