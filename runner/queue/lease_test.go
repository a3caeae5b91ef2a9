package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
)

func submit(t testing.TB, q *queue.Queue, j queue.Job) *queue.Ticket {
	t.Helper()
	if j.Tenant == "" {
		j.Tenant = "a"
	}
	if j.Class == "" {
		j.Class = "host"
	}
	ticket, err := q.Submit(within(t, patience), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func wait(t testing.TB, ticket *queue.Ticket) queue.Outcome {
	t.Helper()
	o, err := ticket.Wait(within(t, patience), nil)
	if err != nil {
		t.Fatalf("wait for %s: %v", ticket.ID(), err)
	}
	return o
}

// shortLease is soon over, and yet long enough to be renewed on a busy machine.
const shortLease = 2 * time.Second

func short(o *queue.Options) { o.Lease = shortLease }

// A runner that dies, here: stops renewing, loses no job. What it says later is refused.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), short)
	ticket := submit(t, q, queue.Job{ID: "j", Attempts: 2})
	w1, w2 := worker(t, q, "r1"), worker(t, q, "r2")
	began := time.Now()
	c1 := claim(t, w1)
	w1.Close()
	c2 := claim(t, w2)
	if took := time.Since(began); c2.Attempt != 2 || took < shortLease-100*time.Millisecond {
		t.Errorf("attempt %d after %v", c2.Attempt, took)
	}
	ctx := within(t, patience)
	if err := c1.Finish(ctx, queue.Outcome{Payload: []byte("late")}); !errors.Is(err, queue.ErrLost) {
		t.Errorf("late result: %v, want ErrLost", err)
	}
	if err := c2.Finish(ctx, queue.Outcome{Payload: []byte("good")}); err != nil {
		t.Error(err)
	}
	if o := wait(t, ticket); string(o.Payload) != "good" || o.Attempt != 2 || o.Runner != "r2" {
		t.Errorf("outcome %+v", o)
	}
}

// The queue itself refuses a late result, also when the runner doesn't notice that
// it is late: here it renews, but another took the job.
func TestFencing(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), short)
	ticket := submit(t, q, queue.Job{ID: "j"})
	w1, w2 := worker(t, q, "r1"), worker(t, q, "r2")
	c1 := claim(t, w1)
	if err := c1.Release(within(t, patience), true); err != nil {
		t.Fatal(err)
	}
	c2 := claim(t, w2)
	bound, cancel := c1.Bind(t.Context())
	defer cancel()
	if err := queue.FinishRaw(c1, within(t, patience)); !errors.Is(err, queue.ErrLost) {
		t.Errorf("result without a lease: %v", err)
	}
	<-bound.Done()
	if !errors.Is(context.Cause(bound), queue.ErrLost) {
		t.Errorf("the work ended by %v", context.Cause(bound))
	}
	if err := c2.Finish(within(t, patience), queue.Outcome{}); err != nil {
		t.Error(err)
	}
	if o := wait(t, ticket); o.Runner != "r2" || o.Attempt != 2 {
		t.Errorf("outcome %+v", o)
	}
}

func TestRenewalKeepsTheLease(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	q := open(t, server(t), func(o *queue.Options) { o.Lease = lease })
	ticket := submit(t, q, queue.Job{ID: "j"})
	c := claim(t, worker(t, q, "r1"))
	other, err := worker(t, q, "r2").Claim(within(t, 2*lease+time.Second), 1)
	if err == nil {
		t.Fatalf("another got %v", other)
	}
	if err := c.Finish(within(t, patience), queue.Outcome{}); err != nil {
		t.Error(err)
	}
	if o := wait(t, ticket); o.Attempt != 1 {
		t.Errorf("outcome %+v", o)
	}
}

func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), short)
	ticket := submit(t, q, queue.Job{ID: "j", Attempts: 2})
	for attempt := range 2 {
		w := worker(t, q, fmt.Sprintf("r%d", attempt))
		if c := claim(t, w); c.Attempt != uint32(attempt+1) {
			t.Fatalf("attempt %d", c.Attempt)
		}
		w.Close()
	}
	w := worker(t, q, "last")
	go func() { _, _ = w.Claim(within(t, patience), 1) }()
	if o := wait(t, ticket); o.Reason != job.ReasonOutcomeUnknown || o.Payload != nil {
		t.Errorf("outcome %+v", o)
	}
}

// Handing back before anything ran costs no attempt.
func TestRelease(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	ticket := submit(t, q, queue.Job{ID: "j", Attempts: 1})
	w := worker(t, q, "r1")
	for i := range 5 {
		c := claim(t, w)
		if c.Attempt != uint32(i+1) {
			t.Errorf("attempt %d", c.Attempt)
		}
		if err := c.Release(within(t, patience), false); err != nil {
			t.Fatal(err)
		}
	}
	c := claim(t, w)
	if err := c.Finish(within(t, patience), queue.Outcome{Reason: job.ReasonTimeoutWall}); err != nil {
		t.Fatal(err)
	}
	if o := wait(t, ticket); o.Reason != job.ReasonTimeoutWall {
		t.Errorf("outcome %+v", o)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	// What isn't heard at once would be known with the next renewal, a minute later.
	q := open(t, server(t), func(o *queue.Options) { o.Lease = 3 * time.Minute })
	ctx := within(t, patience)
	waiting := submit(t, q, queue.Job{ID: "waiting"})
	if err := waiting.Cancel(ctx); err != nil {
		t.Fatal(err)
	}
	if o := wait(t, waiting); o.Reason != job.ReasonCancelled || o.Runner != "" {
		t.Errorf("waiting job: %+v", o)
	}
	running := submit(t, q, queue.Job{ID: "running"})
	c := claim(t, worker(t, q, "r1"))
	if c.ID != "running" {
		t.Fatalf("claimed %q", c.ID)
	}
	bound, cancel := c.Bind(ctx)
	defer cancel()
	began := time.Now()
	if err := running.Cancel(ctx); err != nil {
		t.Fatal(err)
	}
	<-bound.Done()
	if took := time.Since(began); !errors.Is(context.Cause(bound), queue.ErrCancelled) || took > 30*time.Second {
		t.Errorf("ended by %v after %v", context.Cause(bound), took)
	}
	if err := c.Finish(ctx, queue.Outcome{Reason: job.ReasonCancelled}); err != nil {
		t.Fatal(err)
	}
	if o := wait(t, running); o.Reason != job.ReasonCancelled || o.Runner != "r1" {
		t.Errorf("running job: %+v", o)
	}
}

// A cancelled job whose runner dies is not begun again.
func TestCancelledAndLost(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), short)
	ticket := submit(t, q, queue.Job{ID: "j"})
	w := worker(t, q, "r1")
	claim(t, w)
	w.Close()
	if err := ticket.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimNothing(t, worker(t, q, "r2"), func() {
		if o := wait(t, ticket); o.Reason != job.ReasonCancelled {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	alone := submit(t, q, queue.Job{ID: "alone", StartIn: 300 * time.Millisecond})
	if o := wait(t, alone); o.Reason != job.ReasonExpired { // with no runner anywhere
		t.Errorf("outcome %+v", o)
	}
	late := submit(t, q, queue.Job{ID: "late", StartIn: 300 * time.Millisecond})
	time.Sleep(400 * time.Millisecond)
	claimNothing(t, worker(t, q, "r1"), func() {
		if o := wait(t, late); o.Reason != job.ReasonExpired {
			t.Errorf("outcome %+v", o)
		}
	})
}
