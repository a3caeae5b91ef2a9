package runner_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// altered is a real backend whose sandboxes are changed on the way out.
type altered struct {
	sandbox.Backend
	change func(sandbox.Sandbox) sandbox.Sandbox
}

func (a altered) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	s, err := a.Backend.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return a.change(s), nil
}

type limitless struct{ sandbox.Sandbox }

func (limitless) Info(context.Context) (job.SandboxInfo, error) {
	return job.SandboxInfo{}, errors.New("memory.max is not what was asked for")
}

func TestNoStepRunsUnderLimitsThatDoNotHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Backend = altered{b.Backend, func(s sandbox.Sandbox) sandbox.Sandbox { return limitless{s} }}
	res, err := b.run(t.Context(), b.spec("echo never"))
	if res.Reason != job.ReasonSandboxUnavailable || err == nil || len(res.Steps) != 0 || b.stdout.Len() != 0 {
		t.Errorf("result %+v, %v, stdout %q", res, err, b.stdout.String())
	}
}

func TestASandboxThatVanishesLeavesAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var box sandbox.Sandbox
	b.Backend = altered{b.Backend, func(s sandbox.Sandbox) sandbox.Sandbox { box = s; return s }}
	read, write := io.Pipe()
	go func() {
		_, _ = io.ReadFull(read, make([]byte, 6))
		_ = box.Conn().Close() // the agent leaves when its host does
		_, _ = io.Copy(io.Discard, read)
	}()
	res, err := b.Run(t.Context(), b.spec("echo ready; sleep 60"), runner.Streams{Stdout: write})
	if res.Reason != job.ReasonOutcomeUnknown || err == nil || res.Exit != -1 {
		t.Errorf("result %+v, %v", res, err)
	}
}

// lateEnd is a sandbox whose end the host notices late, as one that was ended by its
// limit on a busy host.
type lateEnd struct {
	sandbox.Sandbox
	done chan struct{}
}

func (l lateEnd) Done() <-chan struct{} { return l.done }

func (lateEnd) Ended() sandbox.End { return sandbox.End{Reason: job.ReasonLimitMemory} }

func TestALimitIsToldAlsoWhenTheSandboxsEndIsNoticedLate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var box sandbox.Sandbox
	b.Backend = altered{b.Backend, func(s sandbox.Sandbox) sandbox.Sandbox {
		box = s
		late := lateEnd{s, make(chan struct{})}
		go func() {
			<-s.Done()
			time.Sleep(2 * time.Second)
			close(late.done)
		}()
		return late
	}}
	read, write := io.Pipe()
	go func() {
		_, _ = io.ReadFull(read, make([]byte, 6))
		_ = box.Conn().Close()
		_, _ = io.Copy(io.Discard, read)
	}()
	res, err := b.Run(t.Context(), b.spec("echo ready; sleep 60"), runner.Streams{Stdout: write})
	if res.Reason != job.ReasonLimitMemory || err != nil {
		t.Errorf("result %+v, %v", res, err)
	}
}
