// Package servicetest starts runners of a queue for tests: real Valkey, real
// sandboxes.
package servicetest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// Queue is a Valkey with a queue of its own, and the key to it.
type Queue struct {
	Server *queuetest.Server
	Key    []byte
	Lease  time.Duration
}

// NewQueue starts one.
func NewQueue(t testing.TB) *Queue {
	t.Helper()
	q := &Queue{Server: queuetest.Start(t), Key: make([]byte, envelope.KeySize), Lease: 10 * time.Second}
	_, _ = rand.Read(q.Key)
	return q
}

// Open connects to it.
func (q *Queue) Open(t testing.TB) *queue.Queue {
	t.Helper()
	keys, err := envelope.NewKeyring(q.Key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := queue.Open(t.Context(), queue.Options{Conn: q.Server.Settings(), Keys: keys, Lease: q.Lease, Log: Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return out
}

// Log is a test's.
func Log(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// Runner is a runner in this process.
type Runner struct {
	*service.Service
	stop context.CancelCauseFunc
	done chan struct{}
	err  error
}

// patience is for what comes soon, on a machine that isn't busy.
const patience = 3 * time.Minute

var errTestOver = errors.New("the test is over")

// Options are those of a runner with real sandboxes.
func Options(t testing.TB, q *queue.Queue) service.Options {
	t.Helper()
	st, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	backend := runsc.New(sandboxtest.Runsc(t), st)
	guest := sandboxtest.Guest(t)
	r := &runner.Runner{Backend: backend, Guest: guest, Store: st.Path("toolchain"), Spool: st.Path(), Log: Log(t)}
	id := "r-" + strings.ToLower(rand.Text()[:8])
	return service.Options{
		Queue: q, Runner: r, Backend: backend, ID: id, Dir: st.Path("runner", id), Slots: 2, Drain: 5 * time.Second, Log: Log(t),
		Identify: service.Subject{Backend: backend, Guest: guest}.Identify,
		Probe:    Starts{Runner: r, Backend: backend, OwnKernel: true}.Probe,
	}
}

// Start runs a service until the test ends, or Stop is called.
func Start(t testing.TB, o service.Options) *Runner {
	t.Helper()
	ctx, stop := context.WithCancelCause(context.WithoutCancel(t.Context()))
	r := &Runner{Service: service.New(o), stop: stop, done: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx, func() { close(ready) })
	}()
	t.Cleanup(func() { r.Stop(t) })
	select {
	case <-ready:
	case <-r.done:
		t.Fatalf("the runner did not start: %v", r.err)
	}
	return r
}

// StartHealthy waits until the runner's sandboxes have been tested, too.
func StartHealthy(t testing.TB, o service.Options) *Runner {
	t.Helper()
	r := Start(t, o)
	WaitState(t, o.Queue, o.ID, queue.StateHealthy)
	return r
}

// Drain tells the runner to stop, without waiting.
func (r *Runner) Drain() { r.stop(errTestOver) }

// Stop tells the runner to stop and waits until it has.
func (r *Runner) Stop(t testing.TB) {
	t.Helper()
	r.stop(errTestOver)
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatal("the runner does not stop")
	}
	if r.err != nil {
		t.Errorf("the runner ended: %v", r.err)
	}
}

// WaitState waits until a runner's record has a state, and returns it.
func WaitState(t testing.TB, q *queue.Queue, id string, want queue.State) queue.Health {
	t.Helper()
	var last queue.Health
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		runners, err := q.Runners(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range runners {
			if h.Runner == id {
				last = h
			}
		}
		if last.State == want {
			return last
		}
	}
	t.Fatalf("the runner is %q (%s), not %q", last.State, last.Why, want)
	return last
}
