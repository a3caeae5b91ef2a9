package wire

import (
	"github.com/quavon/quavon/runner/agent/agentpb"
)

// receive reads and handles one frame. An error ends the connection.
func (c *Conn) receive(r *frameReader) error {
	f, err := r.next()
	if err != nil {
		return err
	}
	select {
	case <-c.ready:
	default:
		return c.receiveHello(f)
	}
	if f.stream == 0 {
		return c.receiveOwn(f)
	}
	if open, ok := f.msg.GetBody().(*agentpb.Frame_Open); ok {
		return c.receiveOpen(f.stream, open.Open)
	}
	s, err := c.stream(f.stream)
	switch {
	case err != nil:
		return err
	case s == nil:
		_, err := r.peek(f.size)
		return err
	case f.msg == nil:
		return s.receiveData(f, r)
	}
	return s.receive(f)
}

// receiveHello takes the first frame.
func (c *Conn) receiveHello(f frame) error {
	hello := f.msg.GetHello()
	if f.stream != 0 || hello == nil {
		return violation("the first frame isn't a hello")
	}
	if hello.GetVersion() != c.cfg.Version {
		build := hello.GetBuild()
		return &VersionError{Ours: c.cfg.Version, Theirs: hello.GetVersion(), Build: build[:min(len(build), MaxText)]}
	}
	close(c.ready)
	return nil
}

// receiveOwn handles a frame of the connection itself.
func (c *Conn) receiveOwn(f frame) error {
	switch body := f.msg.GetBody().(type) {
	case *agentpb.Frame_Ping:
		return c.out.post(&agentpb.Frame{Body: &agentpb.Frame_Pong{Pong: body.Ping}})
	case *agentpb.Frame_Pong:
		return c.receivePong(body.Pong)
	}
	return violation("an unexpected frame on the connection itself")
}

func (c *Conn) receivePong(id uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered, ok := c.pings[id]
	if !ok {
		return violation("an answer to no ping")
	}
	delete(c.pings, id)
	close(answered)
	return nil
}

func (c *Conn) receiveOpen(id uint32, req *agentpb.Request) error {
	peer := opener(id)
	if peer == c.cfg.Side || c.cfg.Accept == nil {
		return violation("a stream that the other side may not open")
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	if id <= c.lastPeer || c.opened[peer] >= peer.mayOpen() {
		c.mu.Unlock()
		return violation("a stream out of order, or too many of them")
	}
	c.lastPeer = id
	c.opened[peer]++
	s := newStream(c, id, false)
	c.streams[id] = s
	c.mu.Unlock()
	c.cfg.Accept(s, req)
	return nil
}

// stream finds the stream of a frame. It is nil, without an error, when this side
// has closed a stream of the peer, which may not know it yet. Any other frame of
// a stream that isn't open is a violation.
func (c *Conn) stream(id uint32) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	s := c.streams[id]
	if s == nil && opener(id) != c.cfg.Side && id <= c.lastPeer {
		return nil, nil
	}
	if s == nil || s.received {
		return nil, violation("a frame of stream %d, which isn't open", id)
	}
	return s, nil
}
