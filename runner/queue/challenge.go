package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Challenge asks a runner to look at itself. Only a holder of the signing key can make
// one, and only one can answer it, so that an answer shows that the runner has
// the key, is alive now, and says what was asked just now.
type Challenge struct {
	// Check is the code of what to look at, such as QD952.
	Check string `json:"check"`
	// Full asks for the long form of a check that has one.
	Full bool `json:"full,omitempty"`

	nonce  envelope.Nonce
	expiry time.Time
}

// Answer is a runner's word on a challenge.
type Answer struct {
	Payload []byte
	// Took is the time from the challenge to the answer.
	Took time.Duration
}

// Bounds of challenges, in time and in sealed bytes.
const (
	maxAsk       = 15 * time.Minute
	maxChallenge = 8 << 10
	maxAnswer    = 2 << 20
	// MaxAnswer bounds an answer's payload.
	MaxAnswer = 1 << 20
)

// askPoll is how often the answer to a challenge is looked for.
const askPoll = 100 * time.Millisecond

var errNoAnswer = errors.New("the runner did not answer in time")

// Ask challenges a runner and waits for its answer until ctx ends. Answers that aren't
// genuine, or are to another challenge, are counted and waited past; the last of them is
// the cause when no other comes.
func (q *Queue) Ask(ctx context.Context, runner string, c Challenge) (Answer, error) {
	began := time.Now()
	c.nonce, c.expiry = envelope.NewNonce(), began.Add(maxAsk)
	if end, ok := ctx.Deadline(); ok && end.Before(c.expiry) {
		c.expiry = end
	}
	if err := q.ask(ctx, runner, c); err != nil {
		return Answer{}, err
	}
	wait := &waiting{q: q, runner: runner, challenge: c.nonce, cause: errNoAnswer}
	for {
		payload, err := wait.look(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return Answer{}, err
		case err == nil && payload != nil:
			return Answer{payload, time.Since(began)}, nil
		}
		select {
		case <-time.After(askPoll):
		case <-ctx.Done():
			return Answer{}, fault.Wrap(wait.cause, "ask the runner "+runner, "look at its log, and start it again")
		}
	}
}

func (q *Queue) ask(ctx context.Context, runner string, c Challenge) error {
	if !job.ValidID(runner) {
		return fault.New(fmt.Sprintf("%.80q is no runner's id", runner), "`quavon status` shows the runners")
	}
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	now := time.Now()
	raw, err := q.o.Keys.Seal(envelope.Envelope{
		Context: q.challengeContext(runner), Nonce: c.nonce, NotBefore: now, Expiry: c.expiry, Payload: body,
	})
	if err != nil {
		return err
	}
	answer, err := q.word(ctx, "ask the runner "+runner, askScript, runner, encodeNonce(c.nonce),
		ms(max(time.Second, time.Until(c.expiry))),
		valkey.BinaryString(raw))
	if err == nil && answer != "ok" {
		err = fault.New("too many challenges wait for the runner "+runner, "wait a while; if it doesn't get better, start the runner again")
	}
	return err
}

func (q *Queue) challengeContext(runner string) envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeChallenge, Audience: q.toRunners(), Runner: runner}
}

func (q *Queue) answerContext(runner string, challenge envelope.Nonce) envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeAnswer, Audience: q.toSubmitters(), Runner: runner, Thread: challenge}
}

// waiting is a challenge that has no answer yet.
type waiting struct {
	q         *Queue
	runner    string
	challenge envelope.Nonce
	// refused is what lay in the answer's place and isn't one; cause says why.
	refused []string
	cause   error
}

// look looks for the answer, nil when there is no genuine one yet.
func (w *waiting) look(ctx context.Context) ([]byte, error) {
	m, err := w.q.run(ctx, "look for an answer", answeredScript, encodeNonce(w.challenge), strconv.Itoa(maxAnswer))
	if err != nil {
		return nil, err
	}
	part, err := texts(m)
	if err != nil || len(part) != 2 {
		return nil, errAnswer
	}
	if part[0] == "none" || slices.Equal(part, w.refused) {
		return nil, nil
	}
	payload, err := w.open(part[0], []byte(part[1]))
	if err != nil {
		w.q.log.Warn("answer refused", "runner", w.runner, "error", err)
		w.refused, w.cause = part, err
	}
	return payload, nil
}

func (w *waiting) open(kind string, raw []byte) ([]byte, error) {
	if kind == "large" {
		return nil, w.q.counted(envelope.Refuse(envelope.TooLarge, "an answer of more than %d bytes", maxAnswer))
	}
	e, err := w.q.open(raw, envelope.Expect{Context: w.q.answerContext(w.runner, w.challenge)})
	if err != nil {
		return nil, err
	}
	return append([]byte{}, e.Payload...), nil
}
