package chunk

import (
	"context"
	"errors"
	"io"

	"github.com/quavon/quavon/runner/queue/envelope"
)

var errClosed = errors.New("the reader was closed")

// Reader yields a stream from its chunks. The stream ends with io.EOF only after
// its last chunk has opened. It isn't safe for concurrent use.
type Reader struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no place for it
	cancel context.CancelCauseFunc
	store  Store
	sealer *envelope.Sealer
	ref    Ref
	// ahead holds the chunks on their way, in order.
	ahead   chan chan fetched
	next    uint32
	started uint32
	part    []byte
	err     error
}

type fetched struct {
	sealed []byte
	err    error
}

// NewReader reads the stream that ref names, refusing one longer than limit bytes.
func NewReader(
	ctx context.Context, store Store, keys *envelope.Keyring, c envelope.Context, ref Ref, limit int64,
) (*Reader, error) {
	if ref.Bytes > limit {
		return nil, envelope.Refuse(envelope.TooLarge, "%d bytes, above %d", ref.Bytes, limit)
	}
	sealer, err := keys.Opener(c, ref.Stream, ref.Key)
	if err != nil {
		return nil, err
	}
	r := &Reader{store: store, sealer: sealer, ref: ref, ahead: make(chan chan fetched, window)}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r, nil
}

// Read yields the next bytes of the stream.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.part) == 0 && r.err == nil {
		r.err = r.advance()
	}
	if len(r.part) == 0 {
		return 0, r.err
	}
	n := copy(p, r.part)
	r.part = r.part[n:]
	return n, nil
}

// Close stops fetching. It may be called before the end.
func (r *Reader) Close() error {
	r.cancel(errClosed)
	return nil
}

// advance opens the next chunk while the window behind it is fetched.
func (r *Reader) advance() error {
	for r.started < r.ref.Chunks && len(r.ahead) < window {
		r.fetch(r.started)
		r.started++
	}
	if r.next == r.ref.Chunks {
		return io.EOF
	}
	ch := <-r.ahead
	var f fetched
	select {
	case f = <-ch:
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
	if f.err != nil {
		return f.err
	}
	return r.open(f.sealed)
}

func (r *Reader) open(sealed []byte) error {
	index := r.next
	last := index == r.ref.Chunks-1
	if want := r.size(index) + envelope.Overhead; len(sealed) != want {
		return envelope.Refuse(envelope.Truncated, "chunk %d has %d bytes, not %d", index, len(sealed), want)
	}
	part, err := r.sealer.Open(sealed[:0], sealed, uint64(index), last)
	if err != nil {
		return err
	}
	r.part = part
	r.next++
	return nil
}

// size is how many bytes of the stream are in a chunk.
func (r *Reader) size(index uint32) int {
	return int(min(Size, r.ref.Bytes-int64(index)*Size))
}

func (r *Reader) fetch(index uint32) {
	ch := make(chan fetched, 1)
	r.ahead <- ch
	go func() {
		sealed, err := r.store.Get(r.ctx, index, r.size(index)+envelope.Overhead)
		ch <- fetched{sealed, err}
	}()
}
