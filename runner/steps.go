package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
)

// slack is how much longer than its own promise the agent may take before it is
// taken for lost.
const slack = 5 * time.Second

// steps runs the steps in order under the job's clock and its output limit.
func (j *run) steps(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	if wall := j.spec.Limits.Wall; wall > 0 {
		clock := time.AfterFunc(wall, func() { cancel(errWall) })
		defer clock.Stop()
	}
	j.capOutput(cancel)
	for i := range j.spec.Steps {
		if i > 0 {
			if err := j.killAll(ctx); err != nil {
				return j.interrupted(ctx, err)
			}
		}
		goOn, err := j.outside(ctx, i, func() (bool, error) { return j.step(ctx, i) })
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

// interrupted tells a cancelled job from a lost sandbox.
func (j *run) interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		j.endFor(context.Cause(ctx))
		return nil //nolint:nilerr // the error only follows from the cancellation
	}
	return j.lost(err)
}

// step runs one step and notes its result. It says whether the next may follow.
func (j *run) step(ctx context.Context, i int) (goOn bool, err error) {
	st := j.spec.Steps[i]
	if j.streams.Step != nil {
		j.streams.Step(i)
	}
	begin := time.Now()
	exit, err := j.exec(ctx, i)
	res := job.StepResult{Name: st.Name, Exit: exit.Code, Usage: exit.Usage, Wall: time.Since(begin)}
	j.diskFull = j.diskFull || exit.DiskFull
	switch {
	case ctx.Err() != nil:
		if err != nil {
			res.Exit, err = -1, nil // it was given up
		}
		j.endFor(context.Cause(ctx))
		res.Reason = j.result.Reason
	case err != nil:
		res.Exit, err = -1, j.lost(err)
		res.Reason = j.result.Reason
	case exit.TimedOut:
		res.Reason = job.ReasonTimeoutWall
		j.hit(res.Reason)
		if !st.ContinueOnFailure {
			j.endFor(errStepTimeout)
		}
	}
	if exit.Signal != 0 {
		res.Signal = unix.SignalName(unix.Signal(exit.Signal))
	}
	if exit.StartError != "" {
		j.result.Message = exit.StartError
	}
	j.result.Steps = append(j.result.Steps, res)
	j.result.Exit, j.result.Signal = res.Exit, res.Signal
	return err == nil && j.result.Reason == job.ReasonNone && (res.Exit == 0 || st.ContinueOnFailure), err
}

// endFor notes the reason that stands behind a cause of cancellation.
func (j *run) endFor(cause error) {
	reason := job.ReasonCancelled
	switch {
	case errors.Is(cause, errWall), errors.Is(cause, errStepTimeout):
		reason = job.ReasonTimeoutWall
	case errors.Is(cause, errOutputLimit):
		reason = job.ReasonLimitOutput
	}
	j.end(reason, cause.Error())
}

// exec runs a step's command until it has ended, on its own or because ctx did.
// The error says that the agent is lost.
func (j *run) exec(ctx context.Context, i int) (agent.Exit, error) {
	st := j.spec.Steps[i]
	// The command outlives a cancelled ctx by its grace.
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	p, err := j.client.Exec(life, j.command(st), j.stdio(i))
	if err != nil {
		return agent.Exit{}, err
	}
	if st.TTY {
		go j.followSize(life, p)
	}
	if st.Timeout > 0 {
		watch := time.AfterFunc(st.Timeout+j.grace()+slack, func() { cancel(errStepTimeout) })
		defer watch.Stop()
	}
	ended := context.AfterFunc(ctx, func() { j.kill(life, cancel) })
	defer ended()
	return wait(life, p)
}

// wait returns a command's exit. A writer that never returns, such as a stopped
// terminal, must not hold back the end of a job that was given up.
func wait(life context.Context, p *agent.Process) (agent.Exit, error) {
	type outcome struct {
		exit agent.Exit
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		exit, err := p.Wait()
		ended <- outcome{exit, err}
	}()
	select {
	case o := <-ended:
		return o.exit, o.err
	case <-life.Done():
		return agent.Exit{}, context.Cause(life)
	}
}

// killAll ends what a step has left running.
func (j *run) killAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, j.grace()+slack, errSilent)
	defer cancel()
	return j.client.KillAll(ctx, j.grace())
}

// kill ends what the job runs: TERM, a grace, KILL, as the agent does it. When
// that fails, when the command's last output finds no reader in time, or when the
// operator is in a hurry, the command is given up and the sandbox stopped instead.
// The end of life, which is the command's, ends the wait.
func (j *run) kill(life context.Context, giveUp context.CancelCauseFunc) {
	go func() {
		if err := j.killAll(life); err != nil {
			giveUp(err)
		}
	}()
	select {
	case <-j.streams.Hurry:
	case <-time.After(j.grace() + slack):
	case <-life.Done():
	}
	giveUp(errSandboxGone)
}

func (j *run) followSize(ctx context.Context, p *agent.Process) {
	for {
		select {
		case s, ok := <-j.streams.Resize:
			if !ok || p.Resize(s.Rows, s.Cols) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (j *run) grace() time.Duration {
	if j.runner.Grace > 0 {
		return j.runner.Grace
	}
	return DefaultGrace
}

func (j *run) command(st job.Step) agent.Command {
	as := j.root.user()
	return agent.Command{
		Argv: st.Argv, Env: environ(offlineEnv(st), j.root.env(), doorEnv(st), j.secretEnv(st), st.Env), Dir: j.dir(st),
		UID: as.UID, GID: as.GID, Groups: as.Groups,
		TTY: st.TTY, Rows: j.streams.Rows, Cols: j.streams.Cols,
		Timeout: st.Timeout, Grace: j.grace(),
	}
}

// dir is where a step starts: the workspace, or what the root has instead.
func (j *run) dir(st job.Step) string {
	switch {
	case st.Dir != "":
		return st.Dir
	case slices.ContainsFunc(j.spec.Mounts, func(m job.Mount) bool { return m.Target == job.WorkspaceDir }):
		return job.WorkspaceDir
	}
	return j.root.dir()
}
