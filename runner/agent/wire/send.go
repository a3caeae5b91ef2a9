package wire

import (
	"errors"
	"io"
	"sync"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// maxQueued bounds what waits for a peer that doesn't read.
const maxQueued = 4 << 20

var errQueueFull = errors.New("the other side isn't reading")

// tryWriter is a writer that can write without waiting; it may write less than
// it was given, without an error.
type tryWriter interface {
	TryWrite(p []byte) (int, error)
}

// sender writes frames to the byte stream. Small frames are queued and never
// block the caller, so the goroutine that reads can send them too; data waits for
// its turn. Whoever holds the turn writes what is queued first.
type sender struct {
	w      io.Writer
	failed func(error)

	turn turn       // held while writing to w
	mu   sync.Mutex // guards what follows
	// queue waits to be written; spare is the buffer that was written last.
	queue, spare []byte
}

// post queues a frame and sends it now if nobody else is sending.
func (s *sender) post(f *agentpb.Frame) error {
	s.mu.Lock()
	if len(s.queue) > maxQueued {
		s.mu.Unlock()
		return errQueueFull
	}
	queue, err := appendFrame(s.queue, f)
	if err == nil {
		s.queue = queue
	}
	s.mu.Unlock()
	if err == nil {
		s.kick()
	}
	return err
}

// kick writes what is queued, without waiting. When the turn is taken its holder
// looks at the queue again after giving it up.
func (s *sender) kick() {
	for s.pending() && s.turn.tryLock() {
		b := s.take()
		n, err := s.try(b)
		if err != nil {
			s.failed(err)
		} else if n < len(b) {
			go s.finish(b[n:])
			return
		}
		s.turn.unlock()
	}
}

// try writes without waiting as much as it can.
func (s *sender) try(b []byte) (int, error) {
	if t, ok := s.w.(tryWriter); ok {
		return t.TryWrite(b)
	}
	return 0, nil
}

// finish writes the rest of what kick could not and gives up the turn.
func (s *sender) finish(b []byte) {
	if _, err := s.w.Write(b); err != nil {
		s.failed(err)
	}
	s.turn.unlock()
	s.kick()
}

// data writes one encoded data frame, after what was queued before. It is left
// out when live says that its stream has meanwhile been closed.
func (s *sender) data(b []byte, live func() bool) error {
	s.turn.lock(len(b))
	err := s.writeData(b, live)
	s.turn.unlock()
	if err != nil && !errors.Is(err, ErrClosed) {
		s.failed(err)
	}
	s.kick()
	return err
}

func (s *sender) writeData(b []byte, live func() bool) error {
	if q := s.take(); len(q) > 0 {
		if _, err := s.w.Write(q); err != nil {
			return err
		}
	}
	// Only now: a close that was queued before is in q, and marked its stream.
	if !live() {
		return ErrClosed
	}
	_, err := s.w.Write(b)
	return err
}

func (s *sender) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

// take empties the queue; the caller holds the turn, and the result is valid as
// long as it does.
func (s *sender) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.queue
	s.queue, s.spare = s.spare[:0], b
	return b
}
