package chunk

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// Writer cuts a stream into sealed chunks. It isn't safe for concurrent use.
type Writer struct {
	ctx    context.Context //nolint:containedctx // io.Writer has no place for it
	put    *errgroup.Group
	store  Store
	sealer *envelope.Sealer
	ref    Ref
	limit  int64
	// part is the chunk being filled. It is sent when more follows, so that the
	// last one can say that it is the last.
	part []byte
	err  error
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, Size+envelope.Overhead); return &b }}

// NewWriter writes at most limit bytes to store, under the context c.
func NewWriter(ctx context.Context, store Store, keys *envelope.Keyring, c envelope.Context, limit int64) *Writer {
	w := &Writer{store: store, limit: limit, part: make([]byte, 0, Size)}
	w.ref.Stream, w.ref.Key = envelope.NewNonce(), keys.ActiveID()
	w.sealer = keys.Sealer(c, w.ref.Stream)
	w.put, w.ctx = errgroup.WithContext(ctx)
	w.put.SetLimit(window)
	return w
}

// Stream is the id under which the store keeps the chunks.
func (w *Writer) Stream() envelope.Nonce { return w.ref.Stream }

// Write takes part of the stream. It blocks while a window of chunks is on its way.
func (w *Writer) Write(p []byte) (int, error) {
	if w.ref.Bytes+int64(len(p)) > w.limit {
		w.fail(envelope.Refuse(envelope.TooLarge, "more than %d bytes", w.limit))
	}
	n := 0
	for w.err == nil && n < len(p) {
		if len(w.part) == Size {
			w.send(false)
		}
		k := min(Size-len(w.part), len(p)-n)
		w.part = append(w.part, p[n:n+k]...)
		n += k
		w.ref.Bytes += int64(k)
	}
	return n, w.err
}

// Close sends the last chunk and waits until the store has everything.
func (w *Writer) Close() (Ref, error) {
	if w.err == nil {
		w.send(true)
	}
	if err := w.put.Wait(); err != nil && w.err == nil {
		w.fail(err)
	}
	if w.err != nil {
		return Ref{}, w.err
	}
	return w.ref, nil
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) send(last bool) {
	if w.ctx.Err() != nil { // the store has failed, or the caller has left
		w.fail(context.Cause(w.ctx))
		return
	}
	index := w.ref.Chunks
	w.ref.Chunks++
	buf := buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // it is our pool
	*buf = w.sealer.Seal((*buf)[:0], w.part, uint64(index), last)
	w.part = w.part[:0]
	w.put.Go(func() error {
		if err := w.store.Put(w.ctx, index, *buf); err != nil {
			return err // the store may still read the buffer: it isn't reused
		}
		buffers.Put(buf)
		return nil
	})
}
