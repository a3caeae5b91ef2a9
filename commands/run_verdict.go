package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/quavon/quavon/commands/interrupt"
	"github.com/quavon/quavon/runner/job"
)

// verdict tells a person why the job ended, when it didn't end by itself, and
// returns the exit code that says the same.
func (o *runOptions) verdict(ctx context.Context, res job.Result) error {
	limits := strings.Join(res.LimitsHit, ", ")
	switch {
	case res.Reason != job.ReasonNone:
		o.say(fmt.Sprintf("%s: %s", res.Reason, res.Message), o.hintFor(res.Reason))
	case res.Message != "":
		o.say(res.Message, "")
	case limits != "" && res.Exit != 0:
		o.say("the job reached "+limits+", which may be why it failed", o.hintFor(job.Reason(res.LimitsHit[0])))
	}
	o.sayRefused(res)
	if code := exitCodeFor(ctx, res); code != exitOK {
		return &exitError{Code: code}
	}
	return nil
}

func exitCodeFor(ctx context.Context, res job.Result) ExitCode {
	switch res.Reason {
	case job.ReasonNone:
		return ExitCode(res.Exit)
	case job.ReasonTimeoutWall:
		return exitTimeout
	case job.ReasonLimitMemory, job.ReasonLimitPids, job.ReasonLimitDisk, job.ReasonLimitOutput:
		return exitKilled
	case job.ReasonCancelled:
		if sig := interrupt.Of(ctx); sig != nil {
			return ExitCode(sig.ExitCode())
		}
		return exitNoReader
	}
	return exitOurs
}

// hintFor is what an operator can change about a reason, "" when nothing.
func (o *runOptions) hintFor(r job.Reason) string {
	raise := func(flag, now string) string {
		return fmt.Sprintf("raise it with %s (it was %s), or make the job use less", flag, now)
	}
	switch r {
	case job.ReasonTimeoutWall:
		return raise("--timeout", o.Timeout.String())
	case job.ReasonLimitMemory:
		return raise("--memory", o.Memory.String())
	case job.ReasonLimitPids:
		return raise("--pids", fmt.Sprint(o.Pids))
	case job.ReasonLimitDisk:
		return raise("--disk", o.Disk.String())
	case job.ReasonLimitOutput:
		return raise("--output-limit", o.OutputLimit.String())
	}
	return ""
}
