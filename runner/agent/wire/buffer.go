package wire

import (
	"math/bits"
	"sync"
)

// smallest is the room for data in the smallest buffer. Sizes double from there to
// MaxData, so that a buffer which holds one frame is at least half full.
const smallest = 32 << 10

// buffers are those that aren't in use, by size.
var buffers [5]sync.Pool

// buffer has room for data and for a header before it.
type buffer struct {
	b    []byte
	pool *sync.Pool
}

// newBuffer returns a buffer for n bytes of data, at most MaxData.
func newBuffer(n int) *buffer {
	size := bits.Len(uint(max(n, 1)-1) / smallest)
	pool := &buffers[size]
	if b, ok := pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, headRoom+smallest<<size), pool}
}

// release gives the buffer back.
func (b *buffer) release() { b.pool.Put(b) }
