package flatten

import "encoding/binary"

// ref is the place of a byte string in an arena; 0 is the empty string.
type ref uint32

const arenaChunk = 256 << 10

// arena holds many short byte strings without a header or pointer for each.
type arena struct {
	chunks [][]byte
	// used bytes of the last chunk.
	used int
}

// add stores s, at most arenaChunk/2 bytes.
func (a *arena) add(s string) ref {
	if s == "" {
		return 0
	}
	var head [binary.MaxVarintLen32]byte
	n := binary.PutUvarint(head[:], uint64(len(s)))
	if len(a.chunks) == 0 || a.used+n+len(s) > arenaChunk {
		a.chunks = append(a.chunks, make([]byte, arenaChunk))
		a.used = 0
		if len(a.chunks) == 1 {
			a.used = 1 // keeps 0 for the empty string
		}
	}
	c := a.chunks[len(a.chunks)-1]
	at := a.used
	a.used += copy(c[at:], head[:n])
	a.used += copy(c[a.used:], s)
	return ref((len(a.chunks)-1)*arenaChunk + at)
}

// get returns the stored bytes; the caller must not change them.
func (a *arena) get(r ref) []byte {
	if r == 0 {
		return nil
	}
	c := a.chunks[r/arenaChunk][r%arenaChunk:]
	size, n := binary.Uvarint(c)
	return c[n : n+int(size)]
}

// room says whether n more bytes can be addressed.
func (a *arena) room(n int) bool {
	return (len(a.chunks)+1)*arenaChunk+n < 1<<32
}
