package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/secret"
)

// run is one job on its way.
type run struct {
	runner  *Runner
	spec    job.Spec
	log     *slog.Logger
	streams Streams
	root    root
	sandbox sandbox.Sandbox
	// detached is the backend when its sandboxes see nothing of this host.
	detached sandbox.Detached
	client   *agent.Client
	overlays map[string]int
	// masks are files of the workspace that the job mustn't read.
	masks []string
	// secrets are what the proxy is told of the job's; roots are the certificates that
	// the sandbox trusts without them, nil until they were read.
	secrets secret.Set
	roots   []byte
	// written counts what the steps have printed, delivered what the caller's
	// writers took of it.
	written, delivered atomic.Int64
	// writers are the caller's, until the job has ended.
	writers []*cappedWriter
	// diskFull is set once a step has seen a full disk.
	diskFull bool
	result   job.Result
}

func newRun(r *Runner, spec job.Spec, streams Streams) *run {
	return &run{
		runner: r, spec: spec, streams: streams, overlays: map[string]int{},
		detached: sandbox.AsDetached(r.Backend),
		result:   job.Result{ID: spec.ID, Exit: -1},
	}
}

func (j *run) start(ctx context.Context) (err error) {
	j.sandbox, err = j.runner.Backend.Start(ctx, j.config())
	return err
}

func (j *run) connect(ctx context.Context) (err error) {
	j.client, err = agent.Dial(ctx, j.sandbox.Conn())
	return err
}

// setup arranges the job's view and, at the same time, reads the limits back:
// no step starts under limits that don't hold.
func (j *run) setup(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errSilent)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return j.client.Setup(ctx, j.view()) })
	group.Go(func() error {
		info, err := j.sandbox.Info(ctx)
		j.result.Sandbox = info
		return err
	})
	return group.Wait()
}

// stop ends the sandbox, also for a cancelled job.
func (j *run) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopTimeout, errors.New("the sandbox does not stop"))
	defer cancel()
	for _, r := range j.sandbox.Hit() {
		j.hit(r)
	}
	if err := j.sandbox.Stop(ctx); err != nil {
		return fault.Wrap(err, "can't remove the sandbox", "the next start of quavon tries again").
			WithCode(string(job.ReasonInternal))
	}
	if j.log.Enabled(ctx, slog.LevelDebug) { // else it isn't worth waiting for
		end, _ := j.ended()
		j.log.Debug("the runtime said", "text", end.Log)
	}
	return nil
}

// end notes why the job ended; the first reason stands.
func (j *run) end(reason job.Reason, message string) {
	if j.result.Reason == job.ReasonNone {
		j.result.Reason, j.result.Message = reason, message
	}
	j.hit(reason)
}

// hit notes a limit that was reached; other reasons are none.
func (j *run) hit(reason job.Reason) {
	name := string(reason)
	if isLimit(reason) && !slices.Contains(j.result.LimitsHit, name) {
		j.result.LimitsHit = append(j.result.LimitsHit, name)
	}
}

func isLimit(reason job.Reason) bool {
	return strings.HasPrefix(string(reason), "limit_") || reason == job.ReasonTimeoutWall
}

// lost says what became of the sandbox when the agent stopped answering.
func (j *run) lost(err error) error {
	end, ended := j.ended()
	switch {
	case !ended:
		return unknown(err)
	case isLimit(end.Reason):
		j.end(end.Reason, "the sandbox was ended by this limit")
		return nil
	}
	return unknown(withLog(fmt.Errorf("%w: %w", errSandboxGone, err), end))
}

// endTime is how long the host may take to notice the end of a sandbox whose agent has
// gone. On a busy one that takes seconds, and until then nobody knows of a limit.
const endTime = 10 * time.Second

// ended waits for the host to notice the end of a sandbox whose agent has gone.
func (j *run) ended() (end sandbox.End, ended bool) {
	if j.sandbox == nil {
		return end, false
	}
	select {
	case <-j.sandbox.Done():
		return j.sandbox.Ended(), true
	case <-time.After(endTime):
		return end, false
	}
}

func unknown(err error) error {
	return fault.Wrap(err, "the job's outcome is unknown", "run it again; with --log-level debug the runtime says more").
		WithCode(string(job.ReasonOutcomeUnknown))
}

// withLog adds what the runtime said, which is all the log there is of it.
func withLog(err error, end sandbox.End) error {
	if log := strings.TrimSpace(end.Log); log != "" {
		return fmt.Errorf("%w; the runtime said: %s", err, log)
	}
	if end.State != nil && end.State.Exited() {
		return fmt.Errorf("%w; the runtime said nothing (%s)", err, end.State)
	}
	return err
}

// finish completes the result.
func (j *run) finish() job.Result {
	for _, w := range j.writers {
		w.close()
	}
	if j.diskFull {
		j.hit(job.ReasonLimitDisk)
	}
	slices.Sort(j.result.LimitsHit)
	for _, s := range j.result.Steps {
		j.result.Usage.User += s.Usage.User
		j.result.Usage.Sys += s.Usage.Sys
		j.result.Usage.MaxRSS = max(j.result.Usage.MaxRSS, s.Usage.MaxRSS)
	}
	j.result.Output.Delivered = j.delivered.Load()
	j.result.Output.Truncated = j.spec.Limits.Output > 0 && j.written.Load() > j.spec.Limits.Output
	return j.result
}
