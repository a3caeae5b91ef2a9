package queue

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Cancel ends a job that waits, and asks the runner of one that runs to end it. Wait
// tells when that has happened; a job that has ended stays as it is.
func (t *Ticket) Cancel(ctx context.Context) error {
	q := t.q
	verdict, err := q.sealVerdict(t.id, t.thread, job.ReasonCancelled)
	if err != nil {
		return err
	}
	now := time.Now()
	request, err := q.o.Keys.Seal(envelope.Envelope{
		Context:   envelope.Context{Purpose: envelope.PurposeControl, Audience: q.toRunners(), Job: t.id, Thread: t.thread},
		NotBefore: now, Expiry: now.Add(24 * time.Hour),
	})
	if err != nil {
		return err
	}
	answer, err := q.word(ctx, "cancel the job", cancelScript, t.id, encodeNonce(t.thread),
		valkey.BinaryString(request), valkey.BinaryString(verdict), ms(q.o.Retention))
	if err == nil && answer == "gone" {
		return errUnknownJob
	}
	return err
}
