package queue

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// verdictContext is for words about a job that no runner ran to its end. It names
// no attempt: a job ends once.
func (q *Queue) verdictContext(id string, thread envelope.Nonce) envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeVerdict, Audience: q.toSubmitters(), Job: id, Thread: thread}
}

// sealVerdict says that a job ended for a reason, without a result.
func (q *Queue) sealVerdict(id string, thread envelope.Nonce, reason job.Reason) ([]byte, error) {
	now := time.Now()
	return q.o.Keys.Seal(envelope.Envelope{
		Context: q.verdictContext(id, thread), NotBefore: now, Expiry: now.Add(q.o.Retention + time.Hour),
		Payload: []byte(reason + "\n"),
	})
}

// judge ends jobs that the queue has doomed: id, reason, nonce each. What fails is
// found again by a later sweep.
func (q *Queue) judge(ctx context.Context, doomed [][]string) {
	for _, row := range doomed {
		if err := q.judgeOne(ctx, row); err != nil {
			q.log.Warn("ending a job failed", "error", err)
		}
	}
}

func (q *Queue) judgeOne(ctx context.Context, row []string) error {
	if len(row) != 3 || !job.ValidID(row[0]) {
		return errAnswer
	}
	thread, err := decodeNonce(row[2])
	if err != nil {
		return err
	}
	raw, err := q.sealVerdict(row[0], thread, job.Reason(row[1]))
	if err != nil {
		return err
	}
	_, err = q.word(ctx, "end a job", endScript, row[0], row[2], row[1], valkey.BinaryString(raw), ms(q.o.Retention))
	if err == nil {
		q.log.Info("job ended without a result", "job", row[0], "reason", row[1])
	}
	return err
}

// Sweep ends jobs whose time is over: nobody took them, or their runners were lost.
// Workers do it by themselves.
func (q *Queue) Sweep(ctx context.Context) error {
	m, err := q.run(ctx, "look for jobs whose time is over", sweepScript)
	if err != nil {
		return err
	}
	doomed, err := rows(m)
	if err != nil {
		return err
	}
	q.judge(ctx, doomed)
	return nil
}

// sweepEvery is how often each worker sweeps.
const sweepEvery = 2 * time.Second

func (w *Worker) sweepLoop(ctx context.Context) {
	for {
		select {
		case <-time.After(sweepEvery/2 + rand.N(sweepEvery)): //nolint:gosec // only spreads load
		case <-ctx.Done():
			return
		}
		if err := w.q.Sweep(ctx); err != nil && ctx.Err() == nil {
			w.q.log.Warn("sweep failed", "error", err)
		}
	}
}
