package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// mailbox hears what happens to this process's jobs, over one subscription for all
// of them. What it hears only saves time: records are looked up besides.
type mailbox struct {
	q    *Queue
	name string
	ctx  context.Context //nolint:containedctx // the subscription's life, not a call's
	stop context.CancelCauseFunc
	once sync.Once
	up   chan struct{}

	mu    sync.Mutex
	boxes map[string]map[*inbox]bool
}

// inbox is one waiter's.
type inbox struct {
	id   string
	done chan event
	// output is poked when there is output of the attempt in latest.
	output chan struct{}
	mu     sync.Mutex
	latest event
}

// event is something that happened to a job. Nobody has checked it.
type event struct {
	attempt uint32
	runner  string
	result  string
}

var errClosed = errors.New("the queue was closed")

func newMailbox(ctx context.Context, q *Queue) *mailbox {
	m := &mailbox{q: q, name: encodeNonce(envelope.NewNonce()), up: make(chan struct{}), boxes: map[string]map[*inbox]bool{}}
	m.ctx, m.stop = context.WithCancelCause(ctx)
	return m
}

func (m *mailbox) close() { m.stop(errClosed) }

func channel(name string) string { return Prefix + "reply:" + name }

// open subscribes, the first time, and waits until that has happened.
func (m *mailbox) open(ctx context.Context) error {
	m.once.Do(func() { go m.q.listen(m.ctx, []string{channel(m.name)}, sync.OnceFunc(func() { close(m.up) }), m.hear) })
	select {
	case <-m.up:
		return nil
	case <-ctx.Done():
		return fault.Wrap(context.Cause(ctx), "subscribe at Valkey", "check that Valkey runs there and can be reached")
	}
}

// listen hears channels until ctx ends, subscribing again after errors.
func (q *Queue) listen(ctx context.Context, channels []string, up func(), hear func(valkey.PubSubMessage)) {
	ctx = valkey.WithOnSubscriptionHook(ctx, func(s valkey.PubSubSubscription) {
		if s.Kind == "subscribe" {
			up()
		}
	})
	for ctx.Err() == nil {
		err := q.client.Receive(ctx, q.client.B().Subscribe().Channel(channels...).Build(), hear)
		if ctx.Err() != nil || errors.Is(err, valkey.ErrClosing) {
			return
		}
		q.log.Warn("subscription lost", "error", err)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (m *mailbox) add(id string) *inbox {
	b := &inbox{id: id, done: make(chan event, 1), output: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.boxes[id] == nil {
		m.boxes[id] = map[*inbox]bool{}
	}
	m.boxes[id][b] = true
	return b
}

func (m *mailbox) remove(b *inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.boxes[b.id], b)
	if len(m.boxes[b.id]) == 0 {
		delete(m.boxes, b.id)
	}
}

// hear takes one message: id, kind, attempt, runner, and for the end of a job its
// reason and result.
func (m *mailbox) hear(msg valkey.PubSubMessage) {
	part := strings.SplitN(msg.Message, "\n", 6)
	if len(part) < 4 {
		return
	}
	attempt, err := strconv.ParseUint(part[2], 10, 32)
	if err != nil {
		return
	}
	e := event{attempt: uint32(attempt), runner: part[3]}
	if part[1] == "done" && len(part) == 6 {
		e.result = part[5]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for b := range m.boxes[part[0]] {
		b.post(part[1], e)
	}
}

func (b *inbox) post(kind string, e event) {
	if kind == "done" {
		select {
		case b.done <- e:
		default: // one is there; the record is looked up anyway
		}
		return
	}
	b.mu.Lock()
	b.latest = e
	b.mu.Unlock()
	select {
	case b.output <- struct{}{}:
	default:
	}
}

func (b *inbox) attempt() event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest
}
