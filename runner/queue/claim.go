package queue

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Claim is a job leased to this runner.
type Claim struct {
	ID string
	// Attempt counts deliveries, from 1. It is the lease's fencing token.
	Attempt uint32
	// Payload says what to run.
	Payload []byte

	w      *Worker
	thread envelope.Nonce
	expiry time.Time
	since  time.Time
	reply  string
	files  []File
	output *Output

	mu      sync.Mutex
	err     error
	lost    chan struct{}
	closing chan struct{}
	once    sync.Once
}

// Err is ErrLost, ErrCancelled, or nil while the job is to go on.
func (c *Claim) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Bind makes a context for the job's work: it ends with the cause ErrLost or ErrCancelled
// when the claim does.
func (c *Claim) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-c.lost:
			cancel(c.Err())
		case <-stop:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(stop); cancel(context.Canceled) })
}

// end tells the job's work to stop. Losing the lease overrides a request to cancel.
func (c *Claim) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		close(c.lost)
		c.err = err
	}
	if err == ErrLost { //nolint:errorlint // it is given, not received
		c.err = err
	}
}

// keep is how long what the attempt stores must live.
func (c *Claim) keep() time.Duration { return time.Until(c.expiry) + c.w.q.o.Retention }

func (c *Claim) context(p envelope.Purpose) envelope.Context {
	return envelope.Context{
		Purpose: p, Audience: c.w.q.toSubmitters(), Job: c.ID, Attempt: c.Attempt, Runner: c.w.runner, Thread: c.thread,
	}
}

// Snapshot is the job's files as its submitter sent them, nil when it sent none. They
// are checked as they are read.
func (c *Claim) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	if len(c.files) == 0 {
		return nil, nil //nolint:nilnil // no snapshot is no error
	}
	q := c.w.q
	return q.download(ctx, q.snapshotContext(c.ID, c.thread), c.files[0].Ref, q.o.MaxSnapshot)
}

// Upload stores a file of the result, such as a patch. It is handed over by Finish.
func (c *Claim) Upload(ctx context.Context, name string, r io.Reader) (File, error) {
	ref, err := c.w.q.upload(ctx, c.context(envelope.PurposeFiles), r, c.keep(), c.w.q.o.MaxFile)
	return File{name, ref}, err
}

// Outcome is what became of a job.
type Outcome struct {
	// Reason is as in job.Result; "" when the job's last step ended by itself.
	Reason job.Reason
	// Payload is the runner's result, nil when no runner gave one.
	Payload []byte
	Files   []File
	// Attempt and Runner say whose result it is.
	Attempt uint32
	Runner  string
	// LogComplete says that the log was followed to its end.
	LogComplete bool
}

// Finish ends the job: closes its log, stores the result and only then acknowledges
// the job. It retries until ctx ends. ErrLost means that the job is somebody else's,
// and that nothing was stored.
func (c *Claim) Finish(ctx context.Context, o Outcome) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.closeOutput(); err != nil {
		c.w.q.log.Warn("a job's log is incomplete", "job", c.ID, "error", err)
	}
	body, err := encodeBody(o.Files, o.Payload)
	if err != nil {
		return err
	}
	if err := c.finish(ctx, c.context(envelope.PurposeResult), o.Reason, body); err != nil {
		return err
	}
	for _, f := range c.files {
		if err := c.w.q.store(c.ID, f.Ref.Stream, 0).discard(ctx, f.Ref); err != nil {
			c.w.q.log.Debug("a snapshot stays until its time is over", "job", c.ID, "error", err)
		}
	}
	return nil
}

func (c *Claim) check() error {
	if c.w.stoodStill(c) {
		c.lose()
	}
	if err := c.Err(); err == ErrLost { //nolint:errorlint // it is our own
		c.close()
		return ErrLost
	}
	return nil
}

func (c *Claim) close() {
	c.once.Do(func() { close(c.closing) })
	c.w.forget(c)
}

func (c *Claim) closeOutput() error {
	if c.output == nil {
		return nil
	}
	return c.output.close()
}

// finish stores a sealed message as what became of the job.
func (c *Claim) finish(ctx context.Context, as envelope.Context, reason job.Reason, body []byte) error {
	defer c.close()
	q := c.w.q
	now := time.Now()
	raw, err := q.o.Keys.Seal(envelope.Envelope{
		Context: as, NotBefore: now, Expiry: now.Add(q.o.Retention + time.Hour), Payload: append([]byte(reason+"\n"), body...),
	})
	if err != nil {
		return err
	}
	answer, err := q.word(ctx, "store the result", finishScript, c.ID, strconv.FormatUint(uint64(c.Attempt), 10),
		c.w.runner, valkey.BinaryString(raw), string(reason), ms(q.o.Retention))
	switch {
	case err != nil:
		return err
	case answer != "ok":
		c.lose()
		return ErrLost
	}
	c.w.guard.End(c.thread)
	return nil
}

// reject ends a job whose delivery was refused.
func (c *Claim) reject(ctx context.Context, why error) error {
	return c.finish(ctx, c.w.q.verdictContext(c.ID, c.thread), job.ReasonRejected, []byte(fmt.Sprintf("%.200s", why)))
}

// Release hands the job back for another runner, now. begun says that some of it may
// have run: then the attempt counts.
func (c *Claim) Release(ctx context.Context, begun bool) error {
	if err := c.check(); err != nil {
		return err
	}
	defer c.close()
	if err := c.closeOutput(); err != nil {
		c.w.q.log.Warn("a job's log is incomplete", "job", c.ID, "error", err)
	}
	free := "1"
	if begun {
		free = "0"
	}
	answer, err := c.w.q.word(ctx, "hand a job back", releaseScript, c.ID, strconv.FormatUint(uint64(c.Attempt), 10), c.w.runner, free)
	if err == nil && answer != "ok" {
		return ErrLost
	}
	return err
}

var errUnknownJob = fault.New("the queue knows no such job", "check the id: results are kept for a while only").
	WithCode(string(job.ReasonOutcomeUnknown))
