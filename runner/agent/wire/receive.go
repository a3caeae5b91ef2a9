package wire

import (
	"io"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// receive handles one frame for the stream; called by the connection's reader
// alone. An error ends the connection.
func (s *Stream) receive(f frame) error {
	switch body := f.msg.GetBody().(type) {
	case *agentpb.Frame_End:
		return s.receiveEnd(f.channel)
	case *agentpb.Frame_Credit:
		return s.receiveCredit(f.channel, body.Credit)
	case *agentpb.Frame_Control:
		return s.receiveControl(body.Control)
	case *agentpb.Frame_Close:
		return s.receiveClose(body.Close)
	}
	return violation("an unexpected frame on stream %d", s.id)
}

// incoming is the inbox of a channel that the peer may send on.
func (s *Stream) incoming(ch Channel) (*inbox, error) {
	if ch >= numChannels || s.in[ch] == nil {
		return nil, violation("channel %d doesn't flow this way", ch)
	}
	return s.in[ch], nil
}

func (s *Stream) receiveData(f frame, r *frameReader) error {
	in, err := s.incoming(f.channel)
	if err != nil {
		return err
	}
	return in.receive(r, f.size)
}

func (s *Stream) receiveEnd(ch Channel) error {
	in, err := s.incoming(ch)
	if err != nil {
		return err
	}
	if s.ended[ch] {
		return violation("a channel that ends twice")
	}
	s.ended[ch] = true
	in.end(io.EOF, false)
	return nil
}

func (s *Stream) receiveCredit(ch Channel, n uint32) error {
	if ch >= numChannels || s.out[ch] == nil {
		return violation("credit for channel %d, which doesn't flow this way", ch)
	}
	if n == 0 || int64(n) > int64(s.out[ch].flow.most) {
		return violation("a credit of %d bytes", n)
	}
	return s.out[ch].add(int(n))
}

func (s *Stream) receiveControl(m *agentpb.Control) error {
	if s.onControl == nil {
		return violation("a control message that nobody asked for")
	}
	s.onControl(m)
	return nil
}

func (s *Stream) receiveClose(reply *agentpb.Reply) error {
	s.mu.Lock()
	if s.received { // the connection has just failed
		s.mu.Unlock()
		return nil
	}
	s.received, s.reply = true, reply
	s.mu.Unlock()
	// The acceptor's close is the end of what it had to say; an opener that closes
	// a channel it hasn't ended gives up, and what came isn't the whole.
	if s.opener {
		s.endBoth(io.EOF, false)
	} else {
		s.endBoth(io.ErrUnexpectedEOF, false)
	}
	close(s.done)
	if s.onClose != nil {
		s.onClose()
	}
	if s.opener {
		s.c.forget(s.id)
	}
	return nil
}
