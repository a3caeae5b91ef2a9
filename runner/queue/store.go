package queue

import (
	"context"
	"encoding/hex"
	"io"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/chunk"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// store keeps the chunks of one stream in Valkey, each in a key of its own.
type store struct {
	q    *Queue
	name string
	ttl  time.Duration
}

func (q *Queue) store(id string, stream envelope.Nonce, ttl time.Duration) *store {
	return &store{q, q.dataKey(id, hex.EncodeToString(stream[:])+":"), ttl}
}

func (s *store) key(index uint32) string { return s.name + strconv.FormatUint(uint64(index), 10) }

// Put keeps a chunk.
func (s *store) Put(ctx context.Context, index uint32, sealed []byte) error {
	return conn.Do(ctx, "store a chunk", func(ctx context.Context, _ int) error {
		c := s.q.client
		return c.Do(ctx, c.B().Set().Key(s.key(index)).Value(valkey.BinaryString(sealed)).Px(s.ttl).Build()).Error()
	})
}

// Get reads a chunk, at most one byte more than size.
func (s *store) Get(ctx context.Context, index uint32, size int) (b []byte, err error) {
	err = conn.Do(ctx, "fetch a chunk", func(ctx context.Context, _ int) (err error) {
		c := s.q.client
		b, err = c.Do(ctx, c.B().Getrange().Key(s.key(index)).Start(0).End(int64(size)).Build()).AsBytes()
		return err
	})
	return b, err
}

// discard removes a stream's chunks. It only makes room: they have a time to live.
func (s *store) discard(ctx context.Context, ref chunk.Ref) error {
	const batch = 256
	for from := uint32(0); from < ref.Chunks; from += batch {
		keys := make([]string, 0, batch)
		for i := from; i < min(from+batch, ref.Chunks); i++ {
			keys = append(keys, s.key(i))
		}
		if err := s.q.client.Do(ctx, s.q.client.B().Unlink().Key(keys...).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

// upload seals a stream into the queue.
func (q *Queue) upload(ctx context.Context, c envelope.Context, r io.Reader, ttl time.Duration, limit int64) (chunk.Ref, error) {
	s := &store{q: q, ttl: ttl}
	w := chunk.NewWriter(ctx, s, q.o.Keys, c, limit)
	s.name = q.store(c.Job, w.Stream(), ttl).name
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, 128<<10)); err != nil {
		_, _ = w.Close() // waits for what is on its way
		return chunk.Ref{}, q.counted(err)
	}
	ref, err := w.Close()
	return ref, q.counted(err)
}

// download opens a stream of the queue.
func (q *Queue) download(ctx context.Context, c envelope.Context, ref chunk.Ref, limit int64) (io.ReadCloser, error) {
	r, err := chunk.NewReader(ctx, q.store(c.Job, ref.Stream, 0), q.o.Keys, c, ref, limit)
	if err != nil {
		return nil, q.counted(err)
	}
	return &countedReader{r, q}, nil
}

// countedReader counts the chunk that is refused.
type countedReader struct {
	*chunk.Reader
	q *Queue
}

// Read is the reader's own.
func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	return n, r.q.counted(err)
}
