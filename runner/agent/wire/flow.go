package wire

import "sync"

// flow is how much of a channel may be on the way, and in which portions.
type flow struct {
	// window is the most bytes that may be on the way or unread, data the most in
	// a frame.
	window, data int
	// free are buffers that aren't in use.
	free sync.Pool
}

var (
	wide = &flow{window: Window, data: MaxData}
	// narrow is what the host may have to hold of each of the job's connections, down
	// what the sandbox may.
	narrow = &flow{window: NarrowWindow, data: NarrowData}
	down   = &flow{window: Window, data: MaxData / 2}
)

// flowOf is the flow of a channel of the streams that a side opens.
func flowOf(opener Side, ch Channel) *flow {
	switch {
	case opener == Host:
		return wide
	case ch == In:
		return narrow
	}
	return down
}

// buffer has room for the data of a frame and for a header before it.
type buffer struct {
	b    []byte
	flow *flow
}

func (f *flow) buffer() *buffer {
	if b, ok := f.free.Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, headRoom+f.data), f}
}

// release gives the buffer back.
func (b *buffer) release() { b.flow.free.Put(b) }
