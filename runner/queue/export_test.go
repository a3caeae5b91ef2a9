package queue

import (
	"context"
	"time"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// FinishRaw finishes without the runner's own look at its lease.
func FinishRaw(c *Claim, ctx context.Context) error { //nolint:revive // the receiver comes first
	return c.finish(ctx, c.context(envelope.PurposeResult), "", []byte{0})
}

// Base is the prefix of the queue's keys.
func (q *Queue) Base() string { return q.base }

// SealChallenge is a challenge and its nonce, as Ask stores them.
func (q *Queue) SealChallenge(runner string, valid time.Duration) (nonce string, raw []byte) {
	now := time.Now()
	return q.SealChallengeAt(runner, now.Add(min(0, 2*valid)), now.Add(valid))
}

// SealChallengeAt is one by a clock that shows another time.
func (q *Queue) SealChallengeAt(runner string, from, till time.Time) (nonce string, raw []byte) {
	n := envelope.NewNonce()
	raw, err := q.o.Keys.Seal(envelope.Envelope{
		Context: q.challengeContext(runner), Nonce: n, NotBefore: from, Expiry: till, Payload: []byte(`{"check":"QD951"}`),
	})
	if err != nil {
		panic(err)
	}
	return encodeNonce(n), raw
}

// SealAnswer is an answer to a challenge, as a runner seals it.
func (q *Queue) SealAnswer(runner, challenge string, valid time.Duration) []byte {
	n, err := decodeNonce(challenge)
	if err != nil {
		panic(err)
	}
	now := time.Now()
	raw, err := q.o.Keys.Seal(envelope.Envelope{
		Context: q.answerContext(runner, n), NotBefore: now.Add(min(0, 2*valid)), Expiry: now.Add(valid), Payload: []byte("an old answer"),
	})
	if err != nil {
		panic(err)
	}
	return raw
}
