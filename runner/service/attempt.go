package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/pause"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/task"
)

// attempt is one claim on its way from payload to result.
type attempt struct {
	s     *Service
	claim *queue.Claim
	log   *slog.Logger
	// dir holds the attempt's files: the workspace, and what changes need.
	dir    string
	task   task.Task
	report task.Report
	files  []queue.File
	// began is set before a sandbox may exist.
	began bool
	// stop ends sending the log, after everything else.
	stop context.CancelFunc
}

// attempt runs a claimed job and tells the queue what became of it. ctx ends when
// jobs are handed back.
func (s *Service) attempt(ctx context.Context, c *queue.Claim) {
	a := &attempt{
		s: s, claim: c, log: s.Log.With("job", c.ID, "attempt", c.Attempt),
		dir: filepath.Join(s.Dir, c.ID+"."+strconv.FormatUint(uint64(c.Attempt), 10)),
	}
	a.report.Result = job.Result{ID: c.ID, Exit: -1}
	bound, cancel := c.Bind(ctx)
	defer cancel()
	a.tell(ctx, Claimed, nil)
	err := a.run(bound)
	if rmErr := removeAll(a.dir); rmErr != nil {
		a.log.Warn("a job's files could not be removed", "error", rmErr)
	}
	a.conclude(bound, err)
	if a.stop != nil {
		a.stop()
	}
}

// run does the job. The error says that it could not be run, or not to its end.
func (a *attempt) run(ctx context.Context) error {
	var err error
	if a.task, err = task.Decode(a.claim.Payload); err != nil {
		return err
	}
	a.claim.Payload = nil // it has the values of secrets, and the attempt outlives their use
	if a.task.Spec.ID != a.claim.ID {
		return fault.New("the task is another job's", "don't take payloads from other jobs").WithCode(string(job.ReasonRejected))
	}
	if err := a.s.Bounds.apply(&a.task.Spec.Limits); err != nil {
		return err
	}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		return unavailable(err)
	}
	if err := a.fetch(ctx); err != nil {
		return err
	}
	a.tell(ctx, Running, nil)
	return a.inSandbox(ctx)
}

func unavailable(err error) error {
	return fault.Wrap(err, "make room for the job", "look at the runner's disk and its state directory").
		WithCode(string(job.ReasonSandboxUnavailable))
}

// conclude tells the queue how the attempt ended.
func (a *attempt) conclude(ctx context.Context, err error) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(a.claim.Err(), queue.ErrLost):
		_ = a.claim.Release(ctx, true) // only ends what the claim has here
		a.tell(ctx, Lost, queue.ErrLost)
		return
	case errors.Is(a.claim.Err(), queue.ErrCancelled) && ctx.Err() != nil && err != nil:
		// It was cancelled before it had a sandbox that could say so.
		err = fault.Wrap(cause, "the job was not run", "").WithCode(string(job.ReasonCancelled))
	case errors.Is(cause, errHandBack) && a.unfinished(err):
		a.handBack(ctx)
		return
	}
	reason := job.Reason(fault.Code(err))
	if err != nil {
		reason = cmp.Or(reason, job.ReasonInternal)
		a.report.Reason, a.report.Message, a.report.Hint = reason, err.Error(), fault.Hint(err)
	}
	if reason == job.ReasonSandboxUnavailable {
		a.s.gate.suspect("a job found no sandbox: " + err.Error())
		if a.claim.Attempt == 1 {
			a.handBack(ctx) // another runner may have one
			return
		}
	}
	if a.began && reason != job.ReasonSandboxUnavailable {
		a.s.gate.trust()
	}
	a.finish(ctx)
}

// unfinished says whether the job was ended by stopping the runner: by its own
// reason, or by an error on its way.
func (a *attempt) unfinished(err error) bool {
	return err != nil || a.report.Reason == job.ReasonCancelled
}

// finish stores the result. While Valkey is away it waits, until the lease is lost
// or the runner stops.
func (a *attempt) finish(ctx context.Context) {
	a.tell(ctx, Storing, nil)
	ctx, cancel := lastWords(ctx)
	defer cancel()
	payload, err := a.report.Encode()
	if err == nil {
		err = a.claim.Finish(ctx, queue.Outcome{Reason: a.report.Reason, Payload: payload, Files: a.files})
	}
	switch {
	case errors.Is(err, queue.ErrLost):
		a.tell(ctx, Lost, err)
	case err != nil:
		a.log.Error("the result could not be stored", "error", err)
		a.tell(ctx, Failed, err)
	default:
		a.tell(ctx, Stored, nil)
	}
}

func (a *attempt) handBack(ctx context.Context) {
	ctx, cancel := lastWords(ctx)
	defer cancel()
	err := a.claim.Release(ctx, a.began)
	switch {
	case errors.Is(err, queue.ErrLost):
		a.tell(ctx, Lost, err)
	case err != nil:
		a.log.Error("the job could not be handed back", "error", err)
		a.tell(ctx, Failed, err)
	default:
		a.tell(ctx, HandedBack, nil)
	}
}

// lastWords is a context for telling the queue the end of an attempt: it outlives
// ctx by a grace.
func lastWords(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = pause.For(last, stopGrace)
		cancel(errStopped)
	})
	return last, func() { stop(); cancel(context.Canceled) }
}

func (a *attempt) tell(ctx context.Context, stage Stage, err error) {
	e := Event{Stage: stage, Job: a.claim.ID, Attempt: a.claim.Attempt, At: time.Now(), Err: err}
	if stage != Claimed && stage != Running {
		e.Result = &a.report.Result
	}
	a.log.Info("job", "stage", stage, "reason", a.report.Reason, "exit", a.report.Exit, "error", err)
	a.s.Observe(ctx, e)
}
