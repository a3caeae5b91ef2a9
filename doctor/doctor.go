// Package doctor runs checks of a host and of the sandboxes on it. A check is a
// value; what it looks at is bound into its Run. The doctor orders checks by what
// they need, runs those that need nothing of each other at the same time, bounds
// each in time, and never takes what could not be found out for a pass.
package doctor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quavon/quavon/runner/fault"
)

// State is what became of a check.
type State string

// States.
const (
	Pass State = "pass"
	// Warn is a failure that stops nobody by itself.
	Warn State = "warn"
	Fail State = "fail"
	// Error says that it could not be found out.
	Error State = "error"
	// Skip says that the question doesn't arise here, or that a check needed first
	// gave no ground to stand on.
	Skip State = "skip"
)

// Severity is what a broken check counts as.
type Severity string

// Severities.
const (
	Failure Severity = "failure"
	Warning Severity = "warning"
)

// DefaultTimeout bounds a check that names no time.
const DefaultTimeout = 10 * time.Second

// Check is one question with a fixed code.
type Check struct {
	// Code is "QD" and three digits, Name a short word for scripts and people,
	// Title the sentence that holds when the check passes.
	Code, Name, Title string
	// Group is the heading it is shown under.
	Group string
	// Severity of a Fail; a check may always say Warn by itself.
	Severity Severity
	// Needs are codes that must have passed, or warned, before.
	Needs   []string
	Timeout time.Duration
	// Cleanup is how long the check is waited for when its time is over or it was
	// interrupted, so that it takes away what it made on the host.
	Cleanup time.Duration
	// DefaultFix is what to do when the finding has nothing better.
	DefaultFix string
	// Essential checks can't be ignored.
	Essential bool
	Run       func(context.Context) Finding
}

// Anchor is the check's heading in docs/doctor.md.
func (c *Check) Anchor() string { return "docs/doctor.md#" + lower(c.Code) }

func lower(code string) string {
	b := []byte(code)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Finding is what a check found.
type Finding struct {
	State State
	// Message is one line for people, Details are more, one thing each.
	Message string
	Details []string
	// Fix replaces the check's own.
	Fix string
	// Err is the cause of an Error.
	Err error
	// Parts are what was found of each subject, when there are several.
	Parts []Part
}

// Passed is a check that holds.
func Passed(message string, details ...string) Finding {
	return Finding{State: Pass, Message: message, Details: details}
}

// Warned is a check that holds badly.
func Warned(message, fix string, details ...string) Finding {
	return Finding{State: Warn, Message: message, Fix: fix, Details: details}
}

// Failed is a check that doesn't hold.
func Failed(message, fix string, details ...string) Finding {
	return Finding{State: Fail, Message: message, Fix: fix, Details: details}
}

// Skipped is a question that doesn't arise here, and why.
func Skipped(why string) Finding { return Finding{State: Skip, Message: why} }

// Unknown is a check that could not be made.
func Unknown(err error) Finding {
	return Finding{State: Error, Message: err.Error(), Fix: fault.Hint(err), Err: err}
}

// Result is a check with what became of it.
type Result struct {
	*Check
	Finding
	Took time.Duration
	// Ignored results don't count.
	Ignored bool
}

// ExitCode of a report.
type ExitCode int

// Exit codes.
const (
	ExitOK ExitCode = 0
	// ExitFail says that a check failed; it counts more than ExitUnknown.
	ExitFail ExitCode = 1
	// ExitUnknown says that a check could not be made, or was cut off.
	ExitUnknown ExitCode = 3
	// ExitInterrupted says that somebody stopped the doctor.
	ExitInterrupted ExitCode = 130
)

// Report is all results, in the order of the registry.
type Report struct {
	Started time.Time
	Took    time.Duration
	Results []Result
	// Strict makes warnings count as failures.
	Strict bool
	// Interrupted is set when the caller's context ended other than by time.
	Interrupted bool
}

// Counts are the results by state; ignored ones aren't among them.
func (r *Report) Counts() map[State]int {
	n := map[State]int{}
	for _, x := range r.Results {
		if !x.Ignored {
			n[x.State]++
		}
	}
	return n
}

// ExitCode is the verdict.
func (r *Report) ExitCode() ExitCode {
	n := r.Counts()
	switch {
	case r.Interrupted:
		return ExitInterrupted
	case n[Fail] > 0 || r.Strict && n[Warn] > 0:
		return ExitFail
	case n[Error] > 0 || n[Pass]+n[Warn] == 0 || slices.ContainsFunc(r.Results, Result.unproven):
		return ExitUnknown
	}
	return ExitOK
}

// unproven says that an essential check was asked for and not made: whatever kept it from
// being made, and whether or not that counts, nobody may take the whole for a yes.
func (x Result) unproven() bool { return x.Essential && x.State == Skip }

// Proven says whether the essential checks were among those that were made, and passed.
func (r *Report) Proven() bool {
	n := 0
	for _, x := range r.Results {
		if x.Essential && x.State != Pass {
			return false
		}
		if x.Essential {
			n++
		}
	}
	return n > 0
}

// errInterrupted is the cause that a caller gives when a person stopped the run.
var errInterrupted = errors.New("interrupted")

// ErrWaited is the cause of a run that took longer than the operator wanted to wait.
var ErrWaited = errors.New("the doctor's time is over")
