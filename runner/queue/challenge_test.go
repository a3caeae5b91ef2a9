package queue_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// answering is a runner that answers, and counts what it is asked.
func answering(t *testing.T, q *queue.Queue, id string, answer func(queue.Challenge) []byte) *atomic.Int64 {
	t.Helper()
	w, n := worker(t, q, id), new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Answers(ctx, func(_ context.Context, c queue.Challenge) []byte {
			n.Add(1)
			return answer(c)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	runner, doctor := open(t, server(t), nil), open(t, server(t), nil)
	answering(t, runner, "r1", func(c queue.Challenge) []byte { return []byte(c.Check + " of r1") })
	answering(t, runner, "r2", func(queue.Challenge) []byte { return nil })
	a, err := doctor.Ask(within(t, patience), "r1", queue.Challenge{Check: "QD952"})
	if err != nil || string(a.Payload) != "QD952 of r1" || a.Took <= 0 {
		t.Errorf("%q after %s, %v", a.Payload, a.Took, err)
	}
	if a, err := doctor.Ask(within(t, patience), "r2", queue.Challenge{}); err != nil || len(a.Payload) != 0 {
		t.Errorf("an empty answer: %q, %v", a.Payload, err)
	}
	if _, err := doctor.Ask(within(t, 2*time.Second), "r3", queue.Challenge{}); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("a runner that isn't there: %v", err)
	}
	if _, err := doctor.Ask(t.Context(), "R 3", queue.Challenge{}); err == nil {
		t.Error("what is no id was asked")
	}
}

// A runner that answers with more than may be is as one that doesn't answer, and so is
// one that is too slow.
func TestChallengeBounds(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	answering(t, q, "large", func(queue.Challenge) []byte { return make([]byte, queue.MaxAnswer+1) })
	over := make(chan struct{})
	answering(t, q, "slow", func(queue.Challenge) []byte { <-over; return []byte("late") })
	for _, id := range []string{"large", "slow"} {
		if a, err := q.Ask(within(t, time.Second), id, queue.Challenge{}); err == nil {
			t.Errorf("%s: %d bytes", id, len(a.Payload))
		}
	}
	close(over)
	answering(t, q, "whole", func(queue.Challenge) []byte { return make([]byte, queue.MaxAnswer) })
	if a, err := q.Ask(within(t, patience), "whole", queue.Challenge{}); err != nil || len(a.Payload) != queue.MaxAnswer {
		t.Errorf("%d bytes, %v", len(a.Payload), err)
	}
}

// Challenges that aren't genuine, are late, or come again aren't answered.
func TestForgedChallenges(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	stranger := open(t, server(t), func(o *queue.Options) { o.Keys, o.Name = otherKeys(t), name(t) })
	elsewhere := open(t, server(t), func(o *queue.Options) { o.Name = "elsewhere" })
	n := answering(t, q, "r1", func(queue.Challenge) []byte { return []byte("x") })
	c := client(t, server(t))
	const valid = 10 * time.Minute
	_, genuine := q.SealChallenge("r1", valid)
	leave(t, c, q, "ask", genuine)
	eventually(t, "the genuine one is answered", func() bool { return n.Load() == 1 })
	_, late := q.SealChallenge("r1", -2*time.Minute)
	_, endless := q.SealChallenge("r1", 24*time.Hour)
	_, other := q.SealChallenge("r2", valid)
	_, forged := stranger.SealChallenge("r1", valid)
	_, foreign := elsewhere.SealChallenge("r1", valid)
	for name, raw := range map[string][]byte{
		"replayed": genuine, "late": late, "endless": endless, "another runner's": other, "forged": forged, "another queue's": foreign,
		"truncated": genuine[:len(genuine)-1], "oversized": append(genuine, make([]byte, 1<<20)...), "empty": {1},
	} {
		before := sum(q)
		leave(t, c, q, "ask", raw)
		if name != "oversized" { // which isn't even read
			eventually(t, name+" is refused", func() bool { return sum(q) > before })
		}
	}
	want := map[envelope.Cause]int64{
		envelope.Replayed: 1, envelope.Expired: 1, envelope.Malformed: 3, envelope.WrongContext: 1, envelope.WrongKey: 1, envelope.WrongAudience: 1,
	}
	for cause, n := range want {
		if q.Refusals()[cause] != n {
			t.Errorf("refusals %v, want %v", q.Refusals(), want)
			break
		}
	}
	if n.Load() != 1 {
		t.Errorf("%d challenges were answered", n.Load())
	}
}

// A reply that is lost on its way from Valkey takes no challenge with it.
func TestChallengeOutlivesItsReply(t *testing.T) {
	t.Parallel()
	p := proxy(t, server(t).Socket)
	doctor := open(t, server(t), nil)
	runner := open(t, server(t), func(o *queue.Options) { o.Conn = conn.Settings{Addresses: []string{p.address}} })
	nonce, raw := doctor.SealChallenge("r1", 10*time.Minute)
	mark := raw[len(raw)-16:]
	p.lose.Store(&mark)
	n := answering(t, runner, "r1", func(queue.Challenge) []byte { return []byte("x") })
	leave(t, client(t, server(t)), doctor, nonce, raw)
	if p.lose.Load() != nil {
		t.Error("no reply was lost")
	}
	eventually(t, "it is answered", func() bool { return n.Load() == 1 })
}

// A challenge gives its time whatever the asker's clock shows.
func TestChallengeOfAnotherClock(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	w := worker(t, q, "r1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for what, shown := range map[string]time.Duration{"slow": -50 * time.Second, "fast": 50 * time.Second} {
		given := make(chan time.Duration, 1)
		under, stop := context.WithCancel(ctx)
		var answers sync.WaitGroup
		answers.Go(func() {
			w.Answers(under, func(ctx context.Context, _ queue.Challenge) []byte {
				end, _ := ctx.Deadline()
				given <- time.Until(end)
				return nil
			})
		})
		from := time.Now().Add(shown)
		nonce, raw := q.SealChallengeAt("r1", from, from.Add(40*time.Second))
		leave(t, client(t, server(t)), q, nonce, raw)
		select {
		case d := <-given:
			if d <= 0 || d > 40*time.Second {
				t.Errorf("a %s clock: %s of 40 s", what, d)
			}
		case <-time.After(patience):
			t.Errorf("a %s clock: no challenge is answered", what)
		}
		stop()
		answers.Wait()
	}
}

// leave puts a challenge where runner r1 finds it, as whoever can write to Valkey can.
func leave(t *testing.T, c valkey.Client, q *queue.Queue, nonce string, raw []byte) {
	t.Helper()
	for _, cmd := range []valkey.Completed{
		c.B().Set().Key(q.Base() + "ask:" + nonce).Value(string(raw)).Build(),
		c.B().Zadd().Key(q.Base()+"asks:r1").ScoreMember().ScoreMember(1, nonce).Build(),
		c.B().Publish().Channel(q.Base() + "ask").Message("r1").Build(),
	} {
		if err := c.Do(t.Context(), cmd).Error(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the challenge is taken", func() bool {
		n, err := c.Do(t.Context(), c.B().Exists().Key(q.Base()+"ask:"+nonce).Build()).AsInt64()
		return err == nil && n == 0
	})
}

// Answers that aren't genuine, are late, or are to another challenge aren't believed,
// and don't stand in the way of the one that is.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		forge func(t *testing.T, q *queue.Queue, nonce string) []byte
		want  envelope.Cause
	}{
		"forged": {func(t *testing.T, q *queue.Queue, nonce string) []byte {
			return open(t, server(t), func(o *queue.Options) { o.Keys = otherKeys(t) }).SealAnswer("r1", nonce, time.Minute)
		}, envelope.WrongKey},
		"replayed": {func(_ *testing.T, q *queue.Queue, _ string) []byte {
			earlier, _ := q.SealChallenge("r1", time.Minute)
			return q.SealAnswer("r1", earlier, time.Minute)
		}, envelope.WrongContext},
		"another runner's": {
			func(_ *testing.T, q *queue.Queue, nonce string) []byte { return q.SealAnswer("r2", nonce, time.Minute) },
			envelope.WrongContext,
		},
		"late": {
			func(_ *testing.T, q *queue.Queue, nonce string) []byte {
				return q.SealAnswer("r1", nonce, -2*time.Minute)
			},
			envelope.Expired,
		},
		"truncated": {func(_ *testing.T, q *queue.Queue, nonce string) []byte {
			raw := q.SealAnswer("r1", nonce, time.Minute)
			return raw[:len(raw)-1]
		}, envelope.Malformed},
		"tampered": {func(_ *testing.T, q *queue.Queue, nonce string) []byte {
			raw := q.SealAnswer("r1", nonce, time.Minute)
			raw[len(raw)-40] ^= 1
			return raw
		}, envelope.Tampered},
		"oversized": {func(*testing.T, *queue.Queue, string) []byte { return make([]byte, 3<<20) }, envelope.TooLarge},
		"a challenge": {
			func(_ *testing.T, q *queue.Queue, _ string) []byte {
				_, raw := q.SealChallenge("r1", time.Minute)
				return raw
			},
			envelope.WrongContext,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q := open(t, server(t), nil)
			raw := client(t, server(t))
			go answerBadly(t, raw, q, c.forge)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := q.Ask(ctx, "r1", queue.Challenge{Check: "QD954"})
				ended <- err
			}()
			eventually(t, "the answer is refused", func() bool { return sum(q) > 0 })
			cancel()
			if err := <-ended; envelope.CauseOf(err) != c.want || q.Refusals()[c.want] != 1 {
				t.Errorf("%v, refusals %v, want one %s", err, q.Refusals(), c.want)
			}
		})
	}
}

// answerBadly waits for a challenge of r1 and puts something else in its answer's place.
func answerBadly(t *testing.T, c valkey.Client, q *queue.Queue, forge func(*testing.T, *queue.Queue, string) []byte) {
	for t.Context().Err() == nil {
		nonces, err := c.Do(t.Context(), c.B().Zrange().Key(q.Base()+"asks:r1").Min("0").Max("-1").Build()).AsStrSlice()
		if err == nil && len(nonces) == 1 {
			key := q.Base() + "answer:" + nonces[0]
			if err := c.Do(t.Context(), c.B().Set().Key(key).Value(string(forge(t, q, nonces[0]))).Build()).Error(); err != nil {
				t.Error(err)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func otherKeys(t testing.TB) *envelope.Keyring {
	t.Helper()
	k, err := envelope.NewKeyring(bytes.Repeat([]byte("12"), 16))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sum(q *queue.Queue) (n int64) {
	for _, x := range q.Refusals() {
		n += x
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("not so: " + what)
}

// No more challenges wait for a runner than it can answer.
func TestChallengesAreBounded(t *testing.T) {
	t.Parallel()
	q, c := open(t, server(t), nil), client(t, server(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asks sync.WaitGroup
	var full atomic.Int64
	for range 70 {
		asks.Go(func() {
			if _, err := q.Ask(ctx, "r1", queue.Challenge{}); err != nil && strings.Contains(err.Error(), "too many") {
				full.Add(1)
			}
		})
	}
	eventually(t, "all wait or are refused", func() bool {
		n, err := c.Do(t.Context(), c.B().Zcard().Key(q.Base()+"asks:r1").Build()).AsInt64()
		return err == nil && n+full.Load() == 70
	})
	cancel()
	if asks.Wait(); full.Load() != 6 {
		t.Errorf("%d of 70 were refused, want 6", full.Load())
	}
}
