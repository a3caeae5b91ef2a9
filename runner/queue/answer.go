package queue

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// askedPoll is how often a runner looks for challenges it didn't hear of.
const askedPoll = 5 * time.Second

// atOnce is how many challenges a runner answers at the same time.
const atOnce = 8

// Answers answers challenges until ctx ends, each by what answer returns within the
// challenge's time: at most MaxAnswer bytes.
func (w *Worker) Answers(ctx context.Context, answer func(context.Context, Challenge) []byte) {
	free := make(chan struct{}, atOnce)
	var under sync.WaitGroup
	defer under.Wait()
	var heard []string
	for ctx.Err() == nil {
		asked, taken, err := w.challenges(ctx, heard)
		if err == nil {
			heard = taken
		} else if ctx.Err() == nil {
			w.q.log.Warn("looking for challenges failed", "error", err)
		}
		for _, c := range asked {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			under.Go(func() {
				w.reply(ctx, c, answer)
				<-free
			})
		}
		if err == nil && len(heard) > 0 {
			continue // they are to be dropped, and more may wait behind them
		}
		select {
		case <-w.asked:
		case <-time.After(askedPoll):
		case <-ctx.Done():
		}
	}
}

// challenges are those that wait for this runner and are genuine; taken are the nonces of
// all that were looked at. The ones heard before are dropped now, and not when they were
// read: a reply that is lost must not take them with it.
func (w *Worker) challenges(ctx context.Context, heard []string) (out []Challenge, taken []string, err error) {
	args := append([]string{w.runner, strconv.Itoa(maxChallenge)}, heard...)
	m, err := w.q.run(ctx, "look for challenges", askedScript, args...)
	if err != nil {
		return nil, nil, err
	}
	list, err := rows(m)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range list {
		if len(row) != 2 {
			return nil, nil, errAnswer
		}
		taken = append(taken, row[0])
		c, err := w.challenge([]byte(row[1]))
		if err != nil {
			w.q.log.Warn("challenge refused", "error", err)
			continue
		}
		out = append(out, c)
	}
	return out, taken, nil
}

// challenge opens one. Each is answered once.
func (w *Worker) challenge(raw []byte) (c Challenge, err error) {
	e, err := w.q.open(raw, envelope.Expect{Context: w.q.challengeContext(w.runner)})
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(e.Payload, &c); err != nil {
		return c, w.q.counted(envelope.Refuse(envelope.Malformed, "a challenge"))
	}
	// What it asks for is its length: the asker's clock may show another time than ours.
	now := time.Now()
	c.nonce, c.expiry = e.Nonce, now.Add(e.Expiry.Sub(e.NotBefore))
	if e.Expiry.After(now.Add(maxAsk + w.q.o.Skew)) {
		return c, w.q.counted(envelope.Refuse(envelope.Malformed, "a challenge that never ends"))
	}
	return c, w.q.counted(w.guard.Admit(e.Nonce, 1, e.Expiry.Add(w.q.o.Skew), now))
}

// reply lets answer look and stores what it says, sealed for this challenge.
func (w *Worker) reply(ctx context.Context, c Challenge, answer func(context.Context, Challenge) []byte) {
	ctx, cancel := context.WithDeadlineCause(ctx, c.expiry, errNoAnswer)
	defer cancel()
	payload := answer(ctx, c)
	if len(payload) > MaxAnswer {
		w.q.log.Warn("an answer is too large", "check", c.Check, "bytes", len(payload))
		return
	}
	now := time.Now()
	raw, err := w.q.o.Keys.Seal(envelope.Envelope{
		Context: w.q.answerContext(w.runner, c.nonce), NotBefore: now, Expiry: now.Add(time.Minute), Payload: payload,
	})
	if err == nil {
		_, err = w.q.word(ctx, "answer a challenge", answerScript, encodeNonce(c.nonce), ms(time.Minute), valkey.BinaryString(raw))
	}
	if err != nil {
		w.q.log.Warn("a challenge stays without an answer", "check", c.Check, "error", err)
	}
}
