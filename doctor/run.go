package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Run makes the checks, level by level, and returns when the last has ended or was
// given up. checks are what Select returned.
func Run(ctx context.Context, checks []*Check, ignore map[string]bool) *Report {
	r := &Report{Started: time.Now(), Results: make([]Result, len(checks))}
	done := map[string]*Result{}
	for _, level := range levels(checks) {
		var wg sync.WaitGroup
		for _, i := range level {
			out := &r.Results[i]
			*out = Result{Check: checks[i], Ignored: ignore[checks[i].Code] && !checks[i].Essential}
			if f, ok := grounds(checks[i], done); !ok {
				out.Finding = f
				continue
			}
			wg.Go(func() { out.Finding, out.Took = one(ctx, out.Check) })
		}
		wg.Wait()
		for _, i := range level {
			done[checks[i].Code] = &r.Results[i]
		}
	}
	r.Took = time.Since(r.Started)
	r.Interrupted = ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrWaited)
	return r
}

// grounds says whether what c needs is there; the finding says why not.
func grounds(c *Check, done map[string]*Result) (Finding, bool) {
	for _, need := range c.Needs {
		switch before := done[need]; before.State {
		case Pass, Warn:
		case Skip:
			return Skipped(before.Message), false
		case Error:
			return Skipped(fmt.Sprintf("needs %s (%s), which could not be made", need, before.Name)), false
		default:
			return Skipped(fmt.Sprintf("needs %s (%s), which failed", need, before.Name)), false
		}
	}
	return Finding{}, true
}

// one makes a check in its time. A check that doesn't heed its context is left
// behind: what it would say later counts for nothing.
func one(ctx context.Context, c *Check) (Finding, time.Duration) {
	limit := cmp.Or(c.Timeout, DefaultTimeout)
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	answer := make(chan Finding, 1)
	go func() { answer <- guarded(ctx, c) }()
	var f Finding
	select {
	case f = <-answer:
		if f.State == Error && ctx.Err() != nil {
			// The check's own words for it would hide who ended it.
			f = cutOff(ctx, c)
		}
	case <-ctx.Done():
		f = cutOff(ctx, c)
		select {
		case <-answer:
		case <-time.After(c.Cleanup):
		}
	}
	return weighed(c, f), time.Since(start)
}

// cutOff is a check that was not let end. What its own fix mends was not found.
func cutOff(ctx context.Context, c *Check) Finding {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		cause = errInterrupted
	}
	f := Unknown(cause)
	f.Fix = "make it alone, when the host is less busy: `quavon doctor --only " + c.Code + "`"
	if errors.Is(cause, ErrWaited) {
		f.Fix = "give it more time by --wait"
	}
	return f
}

// guarded makes a panic an error of its check alone.
func guarded(ctx context.Context, c *Check) (f Finding) {
	defer func() {
		if v := recover(); v != nil {
			f = Unknown(fmt.Errorf("the check panicked: %v", v))
			f.Details = []string{string(debug.Stack())}
		}
	}()
	return c.Run(ctx)
}

// weighed completes a finding by what the check is.
func weighed(c *Check, f Finding) Finding {
	switch f.State {
	case Pass, Skip:
		return f
	case Fail:
		if c.Severity == Warning {
			f.State = Warn
		}
	case Warn, Error:
	default:
		f = Unknown(fmt.Errorf("the check ended without a state (%q)", f.State))
	}
	f.Fix = cmp.Or(f.Fix, c.DefaultFix)
	return f
}

// levels groups the indices of checks so that each level needs only earlier ones.
// Select has made sure that there is such an order.
func levels(checks []*Check) [][]int {
	var out [][]int
	placed := map[string]bool{}
	for len(placed) < len(checks) {
		var level []int
		for i, c := range checks {
			if !placed[c.Code] && all(c.Needs, placed) {
				level = append(level, i)
			}
		}
		if len(level) == 0 {
			panic("doctor: checks need each other, or what isn't there")
		}
		for _, i := range level {
			placed[checks[i].Code] = true
		}
		out = append(out, level)
	}
	return out
}

func all(codes []string, in map[string]bool) bool {
	for _, c := range codes {
		if !in[c] {
			return false
		}
	}
	return true
}
