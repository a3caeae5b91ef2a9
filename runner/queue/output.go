package queue

import (
	"context"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// flushAfter is how long output may wait for more before it is sent. The first
// output after a pause is sent at once.
const flushAfter = 25 * time.Millisecond

// maxPending is how much output waits in memory. When Valkey is slower than the job,
// the job waits.
const maxPending = 1 << 20

// Output is the log of one attempt, sent while the job runs. It is safe for
// concurrent use.
type Output struct {
	c      *Claim
	ctx    context.Context //nolint:containedctx // io.Writer has no place for it
	key    string
	head   []byte
	sealer *envelope.Sealer
	index  uint64
	ttl    time.Duration

	mu      sync.Mutex
	room    *sync.Cond
	pending []Frame
	size    int
	left    int64
	cut     bool
	closed  bool
	err     error
	wake    chan struct{}
	done    chan struct{}
}

// Output opens the attempt's log. It must be called once, and is closed by Finish.
// ctx ends sending.
func (c *Claim) Output(ctx context.Context) *Output {
	q := c.w.q
	id := envelope.NewNonce()
	key := q.o.Keys.ActiveID()
	o := &Output{
		c: c, ctx: ctx, key: q.outputKey(c.ID, c.Attempt), left: q.o.MaxOutput, ttl: c.keep(),
		head: append(append([]byte{}, id[:]...), key[:]...), sealer: q.o.Keys.Sealer(c.context(envelope.PurposeOutput), id),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	o.room = sync.NewCond(&o.mu)
	c.output = o
	go o.send()
	return o
}

func (q *Queue) outputKey(id string, attempt uint32) string {
	return q.dataKey(id, "output:"+strconv.FormatUint(uint64(attempt), 10))
}

// Writer is the log as a stream of one kind and step.
func (o *Output) Writer(kind FrameKind, step int) io.Writer {
	return frameWriter{o, kind, uint16(step)}
} //nolint:gosec // 256 steps at most

type frameWriter struct {
	o    *Output
	kind FrameKind
	step uint16
}

// Write queues output. It blocks when too much waits, and takes and drops what is
// above the log's limit.
func (w frameWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxFrame)
		if err := w.o.add(w.kind, w.step, rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

func (o *Output) add(kind FrameKind, step uint16, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size >= maxPending && o.err == nil && !o.closed {
		o.room.Wait()
	}
	switch {
	case o.err != nil:
		return o.err
	case o.closed:
		return io.ErrClosedPipe
	case o.cut:
		return nil
	}
	if int64(len(p)) > o.left {
		p, o.cut = p[:o.left], true
	}
	o.left -= int64(len(p))
	o.append(kind, step, p)
	if o.cut {
		o.append(Cut, step, nil)
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

// append queues a frame, joining it with the last where it fits.
func (o *Output) append(kind FrameKind, step uint16, p []byte) {
	o.size += len(p)
	if n := len(o.pending); n > 0 {
		last := &o.pending[n-1]
		if last.Kind == kind && last.Step == step && len(last.Data)+len(p) <= maxFrame {
			last.Data = append(last.Data, p...)
			return
		}
	}
	o.pending = append(o.pending, Frame{Kind: kind, Step: step, Data: append([]byte(nil), p...)})
}

// send sends what is pending, at most once per flushAfter.
func (o *Output) send() {
	defer close(o.done)
	for {
		select {
		case <-o.wake:
		case <-o.ctx.Done():
			o.fail(context.Cause(o.ctx))
			return
		}
		frames, closed := o.take()
		for i, f := range frames {
			if err := o.put(f, i == len(frames)-1); err != nil {
				o.fail(err)
				return
			}
		}
		if closed {
			return
		}
		select {
		case <-time.After(flushAfter):
		case <-o.c.closing:
		}
	}
}

func (o *Output) take() (frames []Frame, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.pending, o.size = o.pending, nil, 0
	if o.closed {
		frames = append(frames, Frame{Kind: frameEnd})
	}
	o.room.Broadcast()
	return frames, o.closed
}

func (o *Output) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	o.room.Broadcast()
}

// put stores one frame; the last of a batch tells the submitter.
func (o *Output) put(f Frame, tell bool) error {
	raw := append(make([]byte, 0, frameHead+frameBody+len(f.Data)+envelope.Overhead), o.head...)
	raw = o.sealer.Seal(raw, encodeFrame(nil, f), o.index, f.Kind == frameEnd)
	to, message := "", ""
	if tell && f.Kind != frameEnd && o.c.reply != "" {
		to = channel(o.c.reply)
		message = o.c.ID + "\noutput\n" + strconv.FormatUint(uint64(o.c.Attempt), 10) + "\n" + o.c.w.runner
	}
	args := []string{ms(o.ttl), strconv.FormatUint(o.index, 10), valkey.BinaryString(raw), to, message}
	err := conn.Do(o.ctx, "send output", func(ctx context.Context, _ int) error {
		return appendScript().Exec(ctx, o.c.w.q.client, []string{o.key}, args).Error()
	})
	o.index++
	return err
}

// close sends the rest and waits for it.
func (o *Output) close() error {
	o.mu.Lock()
	o.closed = true
	o.room.Broadcast()
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
