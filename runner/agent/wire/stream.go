package wire

import (
	"errors"
	"io"
	"sync"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// Stream is one request and what belongs to it. Its methods are safe for
// concurrent use; each channel has one reader or writer at a time.
type Stream struct {
	id     uint32
	c      *Conn
	opener bool

	// in and out have an entry for each channel that this side receives or sends.
	in  [numChannels]*inbox
	out [numChannels]*outbox

	// Set by Accept, called by the reader.
	onControl func(*agentpb.Control)
	onClose   func()

	mu sync.Mutex
	// sent and received say which side has closed the stream.
	sent, received bool
	ended          [numChannels]bool
	reply          *agentpb.Reply
	err            error
	done           chan struct{}
}

func newStream(c *Conn, id uint32, mine bool) *Stream {
	s := &Stream{id: id, c: c, opener: mine, done: make(chan struct{})}
	for ch := range Channel(numChannels) {
		f := flowOf(opener(id), ch)
		if mine == (ch == In) {
			s.out[ch] = newOutbox(f)
		} else {
			s.in[ch] = newInbox(f, &c.spare, func(n int) { s.give(ch, n) })
		}
	}
	return s
}

// Reader reads a channel that flows to this side. It also is an io.WriterTo.
func (s *Stream) Reader(ch Channel) io.Reader { return s.in[ch] }

// Writer writes a channel that flows from this side.
func (s *Stream) Writer(ch Channel) *Writer { return &Writer{s: s, ch: ch, out: s.out[ch]} }

// OnControl sets who handles control messages. Only Accept may call it. The
// handler is called by the connection's reader and must not block.
func (s *Stream) OnControl(f func(*agentpb.Control)) { s.onControl = f }

// OnClose sets who is told that the peer has closed the stream, under the same
// conditions as OnControl.
func (s *Stream) OnClose(f func()) { s.onClose = f }

// Control sends a control message to the stream's acceptor.
func (s *Stream) Control(m *agentpb.Control) error {
	return s.post(&agentpb.Frame{Body: &agentpb.Frame_Control{Control: m}})
}

// Close is this side's last word on the stream. The acceptor's carries the
// outcome and ends the stream; an opener that closes before gives up and is owed
// the acceptor's close. Calls that come too late do nothing.
func (s *Stream) Close(reply *agentpb.Reply) error {
	s.mu.Lock()
	if s.over() {
		s.mu.Unlock()
		return nil
	}
	s.sent = true
	s.mu.Unlock()
	s.endBoth(ErrClosed, true)
	if !s.opener {
		s.c.forget(s.id)
	}
	return s.c.out.post(&agentpb.Frame{Stream: s.id, Body: &agentpb.Frame_Close{Close: reply}})
}

// Done is closed when the peer has closed the stream or the connection is lost.
// What was received before can still be read.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Reply returns the peer's last word; valid after Done is closed.
func (s *Stream) Reply() (*agentpb.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reply, s.err
}

// open says whether this side may still send.
func (s *Stream) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over()
}

// over says whether the stream takes no more frames of this side; s.mu is held.
func (s *Stream) over() bool { return s.sent || s.opener && s.received }

// post sends a frame unless the stream is closed.
func (s *Stream) post(f *agentpb.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return ErrClosed
	}
	f.Stream = s.id
	return s.c.out.post(f)
}

func (s *Stream) give(ch Channel, n int) {
	// An error means that the stream or the connection has ended, which the
	// channel's reader learns by itself.
	_ = s.post(&agentpb.Frame{Channel: uint32(ch), Body: &agentpb.Frame_Credit{Credit: uint32(n)}})
}

func (s *Stream) endChannel(ch Channel) error {
	return s.post(&agentpb.Frame{Channel: uint32(ch), Body: &agentpb.Frame_End{End: true}})
}

// endBoth ends all channels: reading ends with err, writing fails with it.
func (s *Stream) endBoth(err error, drop bool) {
	for ch := range numChannels {
		if s.in[ch] != nil {
			s.in[ch].end(err, drop)
		}
		if s.out[ch] != nil {
			s.out[ch].end(writeError(err))
		}
	}
}

// writeError is what writing fails with when reading ends with err.
func writeError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrClosed
	}
	return err
}

// fail ends the stream because the connection is lost.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	if !s.received {
		s.err = err
		close(s.done)
	}
	s.sent, s.received = true, true
	s.mu.Unlock()
	s.endBoth(err, false)
}
