// Package runner takes a job from its specification to its result: it admits the
// job, starts a sandbox, arranges the job's view through the agent, runs the steps
// under the clock and the limits, hands back files and changes, and stops the
// sandbox whatever happened. It knows no queue and no command line.
package runner

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/workspace"
)

// Runner runs jobs on one backend. Its methods are safe for concurrent use.
type Runner struct {
	Backend sandbox.Backend
	// Guest is the host path of quavon-guest.
	Guest string
	// Store is the directory of prepared toolchain roots.
	Store string
	// Images is the store that jobs' images are in; nil has none.
	Images *image.Store
	// Spool is the directory that changes with content wait in.
	Spool string
	// Door lets steps with a network out; nil lets nobody out.
	Door Door
	// Grace is between SIGTERM and SIGKILL when a job is ended; zero is DefaultGrace.
	Grace time.Duration
	// Log gets what is worth knowing but fails nothing; nil discards it.
	Log *slog.Logger
}

// DefaultGrace is how long a job has to end after SIGTERM.
const DefaultGrace = 2 * time.Second

// An agent that stops answering must not hold a job forever. Steps have the
// job's wall clock.
const (
	setupTimeout   = 30 * time.Second
	collectTimeout = 15 * time.Minute
	// stopTimeout bounds the removal of a sandbox, which nothing can cancel.
	stopTimeout = 30 * time.Second
)

// Streams is where a job's bytes come from and go to. All fields may be nil. The writers
// are the caller's again when Run returns, unless one is stuck in a write.
type Streams struct {
	// Stdin is the first step's.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Rows and Cols are the terminal's size for steps with one, Resize its later
	// sizes.
	Rows, Cols uint16
	Resize     <-chan Size
	// Step is called before each step starts, with its index: what is written until
	// the next call is that step's.
	Step func(int)
	// Collected reads a tar stream of the files that match Spec.Collect. The job
	// may still be alive then; whoever reads bounds and checks it.
	Collected func(context.Context, io.Reader) error
	// Changed gets a mount's changes with their content, by the mount's target,
	// and closes them.
	Changed map[string]func(*workspace.Diff)
	// Hurry skips the grace of a cancelled job once it is closed.
	Hurry <-chan struct{}
}

// Size is a terminal's.
type Size struct{ Rows, Cols uint16 }

// Run runs a job to its end. The error says that the job could not be run, or
// that its outcome is unknown, and carries a job.Reason as its code; a job that
// failed, reached a limit or was cancelled is a Result without an error. The
// Result is filled as far as it got in either case, and nothing of the sandbox is
// left when Run returns.
func (r *Runner) Run(ctx context.Context, spec job.Spec, streams Streams) (job.Result, error) {
	j := newRun(r, spec, streams)
	j.log = cmp.Or(r.Log, slog.New(slog.DiscardHandler)).With("job", spec.ID)
	err := j.all(ctx)
	if err != nil {
		j.fail(err)
	}
	return j.finish(), err
}

// all runs the phases in order. Whatever fails, stop comes last.
func (j *run) all(ctx context.Context) error {
	if err := j.phase("prepare", func() error { return j.prepare(ctx) }); err != nil {
		return err
	}
	defer j.release()
	if err := j.phase("start", func() error { return j.start(ctx) }); err != nil {
		return j.startFailed(ctx, err)
	}
	err := j.inside(ctx)
	stopErr := j.phase("stop", func() error { return j.stop(ctx) })
	if err == nil {
		err = stopErr
	}
	return err
}

// inside is everything that happens while the sandbox is there.
func (j *run) inside(ctx context.Context) error {
	if err := j.phase("connect", func() error { return j.connect(ctx) }); err != nil {
		return j.startFailed(ctx, err)
	}
	defer j.client.Close() // the sandbox is stopped next
	if j.detached != nil {
		if err := j.phase("load", func() error { return j.load(ctx) }); err != nil {
			return j.loadFailed(ctx, err)
		}
	}
	if err := j.phase("setup", func() error { return j.setup(ctx) }); err != nil {
		return j.startFailed(ctx, err)
	}
	if err := j.phase("steps", func() error { return j.steps(ctx) }); err != nil {
		return err
	}
	if !j.wantsFiles() || !j.canCollect() {
		return nil
	}
	return j.phase("collect", func() error { return j.collect(ctx) })
}

// startFailed is the outcome of a job whose first step was never started: somebody
// cancelled it, its limits are too tight for a sandbox, or there is none.
func (j *run) startFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		j.end(job.ReasonCancelled, context.Cause(ctx).Error())
		return nil //nolint:nilerr // the error only follows from the cancellation
	}
	end, _ := j.ended()
	if isLimit(end.Reason) {
		j.end(end.Reason, "the limit leaves no room for a sandbox")
		return nil
	}
	return &fault.Error{
		What: "can't start a sandbox", Err: withLog(err, end), Hint: fault.Hint(err),
		Code: cmp.Or(fault.Code(err), string(job.ReasonSandboxUnavailable)),
	}
}

func (j *run) phase(name string, f func() error) error {
	start := time.Now()
	err := f()
	j.log.Debug("phase done", "phase", name, "took", time.Since(start))
	j.result.Phases = append(j.result.Phases, job.Phase{Name: name, Took: time.Since(start)})
	return err
}

// fail notes an error in the result, for readers of its JSON form.
func (j *run) fail(err error) {
	j.result.Reason = cmp.Or(job.Reason(fault.Code(err)), job.ReasonInternal)
	j.result.Message, j.result.Hint = err.Error(), fault.Hint(err)
}

// errOutputLimit, errWall and the like are causes of ending the steps early.
var (
	errOutputLimit = errors.New("the job wrote more than its output limit")
	errWall        = errors.New("the job ran longer than its wall clock allows")
	errStepTimeout = errors.New("the step ran longer than its timeout")
	errSandboxGone = errors.New("the sandbox has ended")
	errSilent      = errors.New("the agent does not answer")
	errReader      = errors.New("nobody reads the job's output any more")
	errUndelivered = errors.New("the job's output can't be written")
)
