package layer

import (
	"context"
	"io"
	"sync"
)

const (
	aheadChunk  = 256 << 10
	aheadChunks = 4
)

// ahead reads from r in a goroutine of its own, a few chunks ahead.
type ahead struct {
	full chan chunk
	free chan []byte
	stop context.CancelCauseFunc
	done sync.WaitGroup
	cur  chunk
	// rest of cur that has not been read.
	rest []byte
}

type chunk struct {
	b   []byte
	err error
}

func newAhead(ctx context.Context, r io.Reader) *ahead {
	ctx, stop := context.WithCancelCause(ctx)
	a := &ahead{full: make(chan chunk, aheadChunks), free: make(chan []byte, aheadChunks), stop: stop}
	for range aheadChunks {
		a.free <- make([]byte, aheadChunk)
	}
	a.done.Go(func() { a.fill(ctx, r) })
	return a
}

func (a *ahead) fill(ctx context.Context, r io.Reader) {
	defer close(a.full)
	for {
		var b []byte
		select {
		case b = <-a.free:
		case <-ctx.Done():
			a.full <- chunk{err: context.Cause(ctx)}
			return
		}
		n, err := fillChunk(r, b[:cap(b)])
		a.full <- chunk{b[:n], err}
		if err != nil {
			return
		}
	}
}

// fillChunk is io.ReadFull with the reader's own error at the end.
func fillChunk(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = r.Read(b[n:])
		n += k
	}
	return n, err
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.cur.err != nil {
			return 0, a.cur.err
		}
		if a.cur.b != nil {
			a.free <- a.cur.b
		}
		c, ok := <-a.full
		if !ok {
			return 0, io.ErrClosedPipe
		}
		a.cur, a.rest = c, c.b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Peek returns up to n bytes that the next Read will return again.
func (a *ahead) Peek(n int) ([]byte, error) {
	if a.cur.b == nil && a.cur.err == nil {
		a.cur = <-a.full
		a.rest = a.cur.b
	}
	if len(a.rest) == 0 {
		return nil, a.cur.err
	}
	return a.rest[:min(n, len(a.rest))], nil
}

// Close waits for the goroutine, whose reader must not block for ever: close
// what it reads from first.
func (a *ahead) Close() error {
	a.stop(io.ErrClosedPipe)
	for range a.full {
	}
	a.done.Wait()
	return nil
}
