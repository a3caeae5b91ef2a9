// Package chunk moves streams of any length through a store of small values, each
// sealed with its index and whether it is the last. Neither side ever holds more
// than a few chunks.
package chunk

import (
	"context"
	"encoding/binary"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// Size is how much of a stream is in a chunk; only the last may have less.
const Size = 512 << 10

// window is how many chunks are on their way at once.
const window = 8

// Store keeps the chunks of one stream.
type Store interface {
	// Put keeps a chunk. The slice is the caller's again when Put returns nil.
	Put(ctx context.Context, index uint32, sealed []byte) error
	// Get returns a chunk of at most size bytes, or more than size to say
	// that it is too long.
	Get(ctx context.Context, index uint32, size int) ([]byte, error)
}

// Ref names a stream and says how long it is. It travels in a sealed envelope.
type Ref struct {
	Stream envelope.Nonce
	Key    envelope.KeyID
	Chunks uint32
	Bytes  int64
}

// refSize is the size of a Ref's bytes.
const refSize = 16 + 8 + 4 + 8

// Append writes the reference's bytes.
func (r Ref) Append(b []byte) []byte {
	b = append(b, r.Stream[:]...)
	b = append(b, r.Key[:]...)
	b = binary.BigEndian.AppendUint32(b, r.Chunks)
	return binary.BigEndian.AppendUint64(b, uint64(r.Bytes)) //nolint:gosec // lengths aren't negative
}

// CutRef reads a reference off the front of b and checks that its numbers agree.
func CutRef(b []byte) (r Ref, rest []byte, err error) {
	if len(b) < refSize {
		return Ref{}, nil, envelope.Refuse(envelope.Malformed, "a reference of %d bytes", len(b))
	}
	copy(r.Stream[:], b)
	copy(r.Key[:], b[16:])
	r.Chunks = binary.BigEndian.Uint32(b[24:])
	r.Bytes = int64(binary.BigEndian.Uint64(b[28:])) //nolint:gosec // checked next
	if r.Bytes < 0 || r.Chunks != chunks(r.Bytes) {
		return Ref{}, nil, envelope.Refuse(envelope.Malformed, "%d bytes in %d chunks", r.Bytes, r.Chunks)
	}
	return r, b[refSize:], nil
}

// chunks is how many chunks a stream of n bytes has: at least one, the last.
func chunks(n int64) uint32 { return uint32(max(1, (n+Size-1)/Size)) } //nolint:gosec // limits are far below
