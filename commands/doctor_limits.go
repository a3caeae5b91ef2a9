package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// limitTry is a job that a limit must end, or stop from going on.
type limitTry struct {
	name string
	trial
	// policy is what the backend must enforce; "" is always enforced.
	policy sandbox.Policy
	judge  func(tried) outcome
}

// outcome is what a try has shown: nothing when the limit held.
type outcome struct{ broken, unsure string }

// ended is a job that the runner says a limit has ended. All that was asked for is more
// than the limit: whoever has had it was not held.
func ended(by job.Reason) func(tried) outcome {
	return func(got tried) outcome {
		all, tried := got.results[probe.SubAll]
		switch {
		case tried && all.Errno == "":
			return outcome{broken: fmt.Sprintf("the job had %s and ended with %s, instead of by the limit",
				cmp.Or(all.Answer, "all that it asked for"), got.ending())}
		case by == got.Reason || slices.Contains(got.LimitsHit, string(by)):
			return outcome{}
		case by == job.ReasonLimitPids && tried && slices.Contains([]string{"EAGAIN", "ENOMEM"}, all.Errno):
			return outcome{} // an engine counts no refused processes
		}
		return outcome{unsure: "could not be tried: the job ended with " + got.ending() + got.errors()}
	}
}

// overdue is a job that would have waited for longer than it may.
func overdue(got tried) outcome {
	switch {
	case got.Reason == job.ReasonTimeoutWall:
		return outcome{}
	case got.whole:
		return outcome{broken: "the job ended with " + got.ending() + ", instead of by the limit"}
	}
	return outcome{unsure: "could not be tried: the job ended with " + got.ending() + got.errors()}
}

// full is a job that could not write on, as the kernel of its sandbox said. There must be a
// place in which it could begin.
func full(got tried) outcome {
	held := slices.Contains(got.LimitsHit, string(job.ReasonLimitDisk))
	for _, sub := range slices.Sorted(maps.Keys(got.results)) {
		place, ok := strings.CutPrefix(sub, "write-")
		switch l := got.results[sub]; {
		case !ok:
		case l.Errno == "":
			return outcome{broken: fmt.Sprintf("the job wrote %s bytes to %s and ended with %s, instead of by the limit", l.Answer, place,
				got.ending())}
		case l.Errno == "ENOSPC" && l.Answer != "0":
			held = true
		}
	}
	if held {
		return outcome{}
	}
	return outcome{unsure: "could not be tried: the job can write nowhere, and ended with " + got.ending() + got.errors()}
}

// ending says how a job ended.
func (t tried) ending() string {
	text := fmt.Sprintf("%d, reason %q", t.Exit, t.Reason)
	if t.Message != "" {
		text += " (" + t.Message + ")"
	}
	return text
}

// errors are those of a job's attempts, and what it said when it came to none.
func (t tried) errors() string {
	var list []string
	for _, sub := range slices.Sorted(maps.Keys(t.results)) {
		if l := t.results[sub]; l.Errno != "" {
			list = append(list, sub+": "+l.Errno)
		}
	}
	if len(t.results) == 0 && t.out != "" {
		list = append(list, fmt.Sprintf("it said %.300q", t.out))
	}
	if list == nil {
		return ""
	}
	return "; " + strings.Join(list, ", ")
}

func limitTries() []limitTry {
	const mib = 1 << 20
	const patience = 40 * time.Second
	use := func(id string, amount int, limits job.Limits) trial {
		limits.Wall = patience
		return trial{
			name: "limit", probes: []string{id}, params: map[string][]string{probe.ParamAmount: {strconv.Itoa(amount)}}, limits: limits,
		}
	}
	return []limitTry{
		{"wall clock", trial{name: "limit", limits: job.Limits{Wall: time.Second}, hold: patience}, "", overdue},
		{"output", use("G5-output", 2000, job.Limits{Output: mib}), "", ended(job.ReasonLimitOutput)},
		{"memory", use("G2-memory", 512, job.Limits{Memory: 256 * mib}), sandbox.PolicyMemory, ended(job.ReasonLimitMemory)},
		{"processes", use("G1-processes", 60, job.Limits{Pids: 24}), sandbox.PolicyPids, ended(job.ReasonLimitPids)},
		{"disk", use("G3-disk", 64, job.Limits{Disk: 16 * mib}), sandbox.PolicyDisk, full},
	}
}

// limits reaches each limit once, and then looks for what the jobs have left behind.
func (s *localSandbox) limits(ctx context.Context) doctor.Finding {
	root, inImage, err := s.root(ctx)
	if err != nil {
		return doctor.Unknown(err)
	}
	var l limitsSeen
	var ids []string
	policies := s.runner.Backend.Policies()
	for _, t := range limitTries() {
		if why, ok := policies[t.policy]; t.policy != "" && (!ok || why != sandbox.Enforced) {
			l.unsure = append(l.unsure, t.name+": the backend can't enforce it here: "+why)
			continue
		}
		got, err := s.try(ctx, root, t.trial)
		if got.ID != "" {
			ids = append(ids, got.ID)
		}
		if err != nil {
			l.unsure = append(l.unsure, t.name+": "+err.Error())
			continue
		}
		l.add(t.name, t.judge(got))
	}
	if l.left, err = s.leftovers(ctx, ids); err != nil {
		l.unsure = append(l.unsure, "what is left behind: "+err.Error())
	}
	return triedIn(inImage, l.finding())
}

// limitsSeen is what came of all tries.
type limitsSeen struct{ held, broken, unsure, left []string }

func (l *limitsSeen) add(name string, o outcome) {
	switch {
	case o.broken != "":
		l.broken = append(l.broken, name+": "+o.broken)
	case o.unsure != "":
		l.unsure = append(l.unsure, name+": "+o.unsure)
	default:
		l.held = append(l.held, name)
	}
}

func (l *limitsSeen) finding() doctor.Finding {
	switch {
	case len(l.broken) > 0:
		return doctor.Failed("a limit doesn't hold", "", slices.Concat(l.broken, l.left, l.unsure)...)
	case len(l.left) > 0:
		return doctor.Failed("jobs have left something behind", "start the runner again, which removes it; then report it",
			append(l.left, l.unsure...)...)
	case len(l.unsure) > 0:
		f := doctor.Unknown(errors.New("not every limit could be tried"))
		f.Details = l.unsure
		return f
	}
	return doctor.Passed("held: " + strings.Join(l.held, ", ") + "; nothing was left behind")
}
