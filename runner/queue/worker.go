package queue

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Worker is a runner's side of the queue: it claims jobs and keeps their leases.
type Worker struct {
	q       *Queue
	runner  string
	classes []string
	guard   envelope.Guard
	stop    context.CancelCauseFunc
	tasks   sync.WaitGroup
	wake    chan struct{}
	// missed says that requests to cancel may have gone unheard.
	missed chan struct{}
	// asked says that a challenge may wait.
	asked chan struct{}

	mu     sync.Mutex
	claims map[string]*Claim
	// renewed is when leases were last renewed, or tried to be.
	renewed time.Time
}

// Worker begins a runner's work under an id of its own. classes are what it offers.
// The context ends it, as Close does.
func (q *Queue) Worker(ctx context.Context, runner string, classes ...string) (*Worker, error) {
	if !job.ValidID(runner) {
		return nil, fault.New("the runner's id is not valid", "use 1 to 64 characters of a-z, 0-9 and -")
	}
	if err := checkClasses(classes); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	w := &Worker{
		q: q, runner: runner, classes: classes, stop: stop, wake: make(chan struct{}, 1), missed: make(chan struct{}, 1),
		asked:  make(chan struct{}, 1),
		claims: map[string]*Claim{}, renewed: time.Now(),
	}
	w.tasks.Go(func() { w.renewLoop(ctx) })
	w.tasks.Go(func() { w.sweepLoop(ctx) })
	w.tasks.Go(func() {
		q.listen(ctx, []string{q.base + "wake", q.base + "control", q.base + "ask"}, w.listening, w.hear)
	})
	return w, nil
}

func checkClasses(classes []string) error {
	if len(classes) == 0 || slices.ContainsFunc(classes, func(c string) bool { return !validClass.MatchString(c) }) {
		return fault.New("the runner offers nothing, or a class is not valid", "use 1 to 100 characters of a-z, 0-9 and :._/-")
	}
	return nil
}

// Offer replaces the classes for later claims.
func (w *Worker) Offer(classes ...string) error {
	if err := checkClasses(classes); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.classes = classes
	return nil
}

func (w *Worker) offered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.classes
}

// Close ends renewals. Claims that weren't finished or released go to other runners
// when their leases lapse.
func (w *Worker) Close() {
	w.stop(errClosed)
	w.tasks.Wait()
}

// listening is called whenever the channels can be heard, again: what was said before
// is to be asked for.
func (w *Worker) listening() {
	w.ring()
	poke(w.missed)
	poke(w.asked)
}

func (w *Worker) ring() { poke(w.wake) }

// poke wakes who waits on c, now or the next time.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hear takes a message of the queue's channels.
func (w *Worker) hear(m valkey.PubSubMessage) {
	if m.Channel == w.q.base+"wake" {
		if slices.Contains(w.offered(), m.Message) {
			w.ring()
		}
		return
	}
	if m.Channel == w.q.base+"ask" {
		if m.Message == w.runner {
			poke(w.asked)
		}
		return
	}
	part := strings.SplitN(m.Message, "\n", 3)
	if len(part) != 3 {
		return
	}
	w.mu.Lock()
	c := w.claims[part[0]]
	w.mu.Unlock()
	if c != nil {
		c.cancelled([]byte(part[2]))
	}
}

// idlePoll is how often an idle worker looks by itself: for leases that lapsed and for
// calls it did not hear.
const idlePoll = time.Second

// Claim waits for jobs and leases up to n of them to this runner. The leases are
// renewed until the claims are finished, released, or lost.
func (w *Worker) Claim(ctx context.Context, n int) ([]*Claim, error) {
	for {
		claims, err := w.askOnce(ctx, n)
		if err != nil || len(claims) > 0 {
			return claims, err
		}
		select {
		case <-w.wake:
		case <-time.After(idlePoll/2 + rand.N(idlePoll)): //nolint:gosec // only spreads load
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// askOnce asks without being cut off at once when ctx ends: jobs leased by a call
// nobody listens to any more would wait until the lease lapses.
func (w *Worker) askOnce(ctx context.Context, n int) ([]*Claim, error) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(time.Second):
			cancel(context.Cause(ctx))
		case <-call.Done():
		}
	})
	defer stop()
	return w.claim(call, n)
}

// claim asks once.
func (w *Worker) claim(ctx context.Context, n int) ([]*Claim, error) {
	token := encodeNonce(envelope.NewNonce())
	var out valkey.ValkeyMessage
	err := conn.Do(ctx, "claim jobs", func(ctx context.Context, try int) (err error) {
		args := append([]string{
			w.runner, strconv.Itoa(n), ms(w.q.o.Lease), token, strconv.Itoa(try), strconv.Itoa(envelope.MaxSize),
		}, w.offered()...)
		out, err = claimScript().Exec(ctx, w.q.client, []string{w.q.base}, args).ToMessage()
		return err
	})
	if err != nil {
		return nil, err
	}
	parts, err := out.ToArray()
	if err != nil || len(parts) != 2 {
		return nil, cmp.Or(err, errAnswer)
	}
	leased, err1 := rows(parts[0])
	doomed, err2 := rows(parts[1])
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	w.q.judge(ctx, doomed)
	var claims []*Claim
	for _, row := range leased {
		if c := w.accept(ctx, row); c != nil {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

var errAnswer = errors.New("the queue's record has another form than ours")

// accept opens a delivery. One that is refused ends rejected, and nil is returned.
func (w *Worker) accept(ctx context.Context, row []string) *Claim {
	c, err := w.unpack(row)
	if err == nil {
		w.mu.Lock()
		w.claims[c.ID] = c
		w.mu.Unlock()
		if row[4] != "" {
			c.cancelled([]byte(row[4]))
		}
		return c
	}
	w.q.log.Warn("delivery refused", "job", row[0], "error", err)
	if c != nil {
		if err := c.reject(ctx, err); err != nil {
			w.q.log.Warn("rejecting a job failed", "job", c.ID, "error", err)
		}
	}
	return nil
}

// unpack reads id, envelope, attempt, nonce, cancel request and reply channel of a
// delivery. A claim comes with the error when its lease is known.
func (w *Worker) unpack(row []string) (*Claim, error) {
	if len(row) != 6 || !job.ValidID(row[0]) {
		return nil, errAnswer
	}
	attempt, err := strconv.ParseUint(row[2], 10, 32)
	if err != nil {
		return nil, errAnswer
	}
	c := &Claim{
		w: w, ID: row[0], Attempt: uint32(attempt), reply: row[5], since: time.Now(),
		lost: make(chan struct{}), closing: make(chan struct{}),
	}
	if c.thread, err = decodeNonce(row[3]); err != nil {
		return c, err
	}
	e, err := w.q.open([]byte(row[1]), envelope.Expect{Context: w.q.jobContext(c.ID)})
	if err != nil {
		return c, err
	}
	if e.Nonce != c.thread {
		return c, w.q.counted(envelope.Refuse(envelope.Replayed, "the record has another nonce"))
	}
	c.expiry = e.Expiry
	files, payload, err := decodeBody(e.Payload)
	if err != nil {
		return c, w.q.counted(err)
	}
	c.Payload, c.files = payload, files
	return c, w.q.counted(w.guard.Admit(e.Nonce, c.Attempt, e.Expiry.Add(w.q.o.Skew), time.Now()))
}

func (w *Worker) forget(c *Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims[c.ID] == c {
		delete(w.claims, c.ID)
	}
}
