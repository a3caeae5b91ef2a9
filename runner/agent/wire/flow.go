package wire

import "sync/atomic"

// flow is how much of a channel may be on the way.
type flow struct {
	// window is the most bytes that may be on the way or unread at first, most what
	// the receiver may make of it.
	window, most int
}

var (
	wide = &flow{window: Window, most: Window}
	// narrow is what the host may have to hold of each of the job's connections.
	narrow = &flow{window: NarrowWindow, most: Window}
)

// flowOf is the flow of a channel of the streams that a side opens.
func flowOf(opener Side, ch Channel) *flow {
	if opener == Guest && ch == In {
		return narrow
	}
	return wide
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
