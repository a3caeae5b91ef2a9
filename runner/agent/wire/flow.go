package wire

import "sync/atomic"

// flow is how much of a channel may be on the way, and in which portions.
type flow struct {
	// window is the most bytes that may be on the way or unread at first, most what
	// the receiver may make of it, data the most in a frame.
	window, most, data int
}

var (
	wide = &flow{window: Window, most: Window, data: MaxData}
	// narrow is what the host may have to hold of each of the job's connections, down
	// what the sandbox may. Smaller frames let other connections in between.
	narrow = &flow{window: NarrowWindow, most: Window, data: MaxData}
	down   = &flow{window: Window, most: Window, data: MaxData / 2}
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

// spare is what the windows of a connection may still grow by, together.
type spare struct{ used atomic.Int64 }

// take reports whether n bytes were left.
func (s *spare) take(n int) bool {
	if s.used.Add(int64(n)) <= MaxSpare {
		return true
	}
	s.give(n)
	return false
}

func (s *spare) give(n int) { s.used.Add(-int64(n)) }
