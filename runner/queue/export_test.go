package queue

import (
	"context"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// FinishRaw finishes without the runner's own look at its lease.
func FinishRaw(c *Claim, ctx context.Context) error { //nolint:revive // the receiver comes first
	return c.finish(ctx, c.context(envelope.PurposeResult), "", []byte{0})
}

// Base is the prefix of the queue's keys.
func (q *Queue) Base() string { return q.base }
