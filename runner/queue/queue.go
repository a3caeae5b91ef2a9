// Package queue carries jobs from submitters to runners and results back, through
// Valkey's streams and consumer groups. Nothing in Valkey is believed: all that
// matters is sealed, bound to its job and attempt, and bounded. docs/queue.md has
// the keys, the states and the guarantees.
package queue

import (
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Prefix begins all keys and channels.
const Prefix = "quavon-sandbox:"

// Options say which queue and how to treat it. Zero values take the defaults.
type Options struct {
	Conn conn.Settings
	Keys *envelope.Keyring
	// Name is the queue's, by default "default". Queues share nothing.
	Name string
	// Lease is how long a silent runner keeps a job: 15 s. It renews in thirds.
	Lease time.Duration
	// Retention is how long results stay: 1 h.
	Retention time.Duration
	// Skew is how far clocks of submitters and runners may differ: 1 min.
	Skew time.Duration
	// MaxQueued bounds the waiting jobs of a tenant, of one class and priority: 50,000.
	MaxQueued int
	// MaxSnapshot and MaxFile bound streams, in bytes: 4 GiB.
	MaxSnapshot, MaxFile int64
	// MaxOutput bounds what a job's log may hold, in bytes: 64 MiB.
	MaxOutput int64
	Log       *slog.Logger
}

// Queue is a connection to one queue, for submitters and runners alike. It is safe
// for concurrent use.
type Queue struct {
	o      Options
	client valkey.Client
	base   string
	log    *slog.Logger
	mail   *mailbox

	mu       sync.Mutex
	refusals map[envelope.Cause]int64
}

func (o *Options) complete() {
	o.Name = cmp.Or(o.Name, "default")
	o.Lease = cmp.Or(o.Lease, 15*time.Second)
	o.Retention = cmp.Or(o.Retention, time.Hour)
	o.Skew = cmp.Or(o.Skew, ClockSkew)
	o.MaxQueued = cmp.Or(o.MaxQueued, 50_000)
	o.MaxSnapshot = cmp.Or(o.MaxSnapshot, 4<<30)
	o.MaxFile = cmp.Or(o.MaxFile, 4<<30)
	o.MaxOutput = cmp.Or(o.MaxOutput, 64<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Open connects. The context ends background work only; Close ends all.
func Open(ctx context.Context, o Options) (*Queue, error) {
	o.complete()
	if !job.ValidID(o.Name) {
		return nil, fault.New("the queue's name is not valid", "use 1 to 64 characters of a-z, 0-9 and -")
	}
	if o.Keys == nil {
		return nil, fault.New("the queue has no signing key", "name the file of sandbox_signing_key")
	}
	client, err := conn.Open(o.Conn)
	if err != nil {
		return nil, err
	}
	q := &Queue{o: o, client: client, base: Prefix + "{" + o.Name + "}:", log: o.Log, refusals: map[envelope.Cause]int64{}}
	q.mail = newMailbox(context.WithoutCancel(ctx), q)
	return q, nil
}

// Close ends the connection and what waits on it.
func (q *Queue) Close() {
	q.mail.close()
	q.client.Close()
}

// Ping says whether Valkey answers us.
func (q *Queue) Ping(ctx context.Context) error {
	return conn.Explain(q.client.Do(ctx, q.client.B().Ping().Build()).Error(), "reach Valkey at "+q.o.Conn.String())
}

// Refusals counts messages that were refused, by cause.
func (q *Queue) Refusals() map[envelope.Cause]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[envelope.Cause]int64, len(q.refusals))
	for c, n := range q.refusals {
		out[c] = n
	}
	return out
}

// counted counts err when it is a refusal, and returns it.
func (q *Queue) counted(err error) error {
	if c := envelope.CauseOf(err); c != "" {
		q.mu.Lock()
		q.refusals[c]++
		q.mu.Unlock()
	}
	return err
}

// Audiences: who a message is for.
func (q *Queue) toRunners() string    { return "runners/" + q.o.Name }
func (q *Queue) toSubmitters() string { return "submitters/" + q.o.Name }

// dataKey names what a job has outside the queue's slot, so that a cluster spreads it.
func (q *Queue) dataKey(id, rest string) string {
	return Prefix + "{" + q.o.Name + "/" + id + "}:" + rest
}

// open opens an envelope now, and counts it if it is refused.
func (q *Queue) open(raw []byte, want envelope.Expect) (envelope.Envelope, error) {
	want.Now, want.Skew = time.Now(), q.o.Skew
	e, err := q.o.Keys.Open(raw, want)
	return e, q.counted(err)
}

func encodeNonce(n envelope.Nonce) string { return hex.EncodeToString(n[:]) }

func decodeNonce(s string) (n envelope.Nonce, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(n) {
		return n, envelope.Refuse(envelope.Malformed, "the record's nonce")
	}
	copy(n[:], b)
	return n, nil
}
