package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// Why a claim ended before its runner was through.
var (
	// ErrLost: the lease lapsed and the job is somebody else's. Nothing this runner
	// says about it counts any more.
	ErrLost = errors.New("the lease was lost")
	// ErrCancelled: its submitter wants it to end. The runner still has the lease, and
	// finishes the job as cancelled.
	ErrCancelled = errors.New("the job was cancelled")
)

// renewLoop renews the leases of all claims, in one call, every third of a lease.
// While Valkey is away it keeps trying: as long as nobody else took a job, it is ours.
func (w *Worker) renewLoop(ctx context.Context) {
	tick := time.NewTicker(w.q.o.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.renew(ctx)
		case <-w.missed:
			w.renew(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (w *Worker) renew(ctx context.Context) {
	claims := w.holding()
	if len(claims) == 0 {
		return
	}
	args := []string{w.runner, ms(w.q.o.Lease)}
	for _, c := range claims {
		args = append(args, c.ID, strconv.FormatUint(uint64(c.Attempt), 10))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.q.o.Lease/3, errNoRenewal)
	defer cancel()
	m, err := renewScript().Exec(ctx, w.q.client, []string{w.q.base}, args).ToMessage()
	if err != nil {
		w.q.log.Warn("renewing leases failed", "error", err)
		return
	}
	answers, err := texts(m)
	if err != nil || len(answers) != len(claims) {
		w.q.log.Warn("renewing leases failed", "error", errAnswer)
		return
	}
	for i, c := range claims {
		switch answers[i] {
		case "ok":
		case "lost":
			c.lose()
		default:
			c.cancelled([]byte(answers[i]))
		}
	}
}

var errNoRenewal = errors.New("no renewal in time")

// holding is the claims whose leases are to be renewed. A runner that stood still for a
// whole lease (stopped, suspended, starved) can't know what happened meanwhile:
// then it gives up all of them.
func (w *Worker) holding() []*Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	stood := now.Sub(w.renewed) > w.q.o.Lease
	w.renewed = now
	var claims []*Claim
	for _, c := range w.claims {
		if stood && now.Sub(c.since) > w.q.o.Lease {
			c.lose()
			continue
		}
		claims = append(claims, c)
	}
	return claims
}

// stoodStill says whether renewals are overdue by so much that the lease has lapsed.
func (w *Worker) stoodStill(c *Claim) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return now.Sub(w.renewed) > w.q.o.Lease && now.Sub(c.since) > w.q.o.Lease
}

// lose ends a claim whose lease is gone.
func (c *Claim) lose() { c.end(ErrLost) }

// cancelled ends a claim when the request is genuine.
func (c *Claim) cancelled(raw []byte) {
	want := envelope.Context{Purpose: envelope.PurposeControl, Audience: c.w.q.toRunners(), Job: c.ID, Thread: c.thread}
	if _, err := c.w.q.open(raw, envelope.Expect{Context: want}); err != nil {
		c.w.q.log.Warn("cancel request refused", "job", c.ID, "error", err)
		return
	}
	c.end(ErrCancelled)
}
