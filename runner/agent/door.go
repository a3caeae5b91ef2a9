package agent

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
)

// OpenDoor makes the agent listen on 127.0.0.1:3128 in the sandbox. Each connection
// there is handed to carry, in a goroutine of its own, and ends when carry returns.
// All that carry reads is hostile.
func (c *Client) OpenDoor(ctx context.Context, carry func(*Conn)) error {
	c.door.open(carry)
	_, err := c.call(ctx, &agentpb.Request{Op: &agentpb.Request_Door{Door: &agentpb.Door{Open: true}}})
	if err != nil {
		c.door.close()
	}
	return wrap("open the door", err)
}

// CloseDoor ends the listening and all connections. It returns once every carry
// has returned.
func (c *Client) CloseDoor(ctx context.Context) error {
	c.door.close()
	_, err := c.call(ctx, &agentpb.Request{Op: &agentpb.Request_Door{Door: &agentpb.Door{}}})
	return wrap("close the door", err)
}

// door hands on the connections that the guest opens.
type door struct {
	mu     sync.Mutex
	carry  func(*Conn) // nil while the door is closed
	conns  map[*Conn]struct{}
	carrys sync.WaitGroup
}

func (d *door) open(carry func(*Conn)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.carry, d.conns = carry, map[*Conn]struct{}{}
}

func (d *door) close() {
	d.mu.Lock()
	d.carry = nil
	for c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.carrys.Wait()
}

// accept takes a stream that the guest has opened; called by the reader of the
// byte stream. A connection that comes while the door is closed gets nowhere.
func (d *door) accept(s *wire.Stream, req *agentpb.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.carry == nil || req.GetConnect() == nil {
		_ = s.Close(&agentpb.Reply{Error: "the door is closed"}) // the connection's end is noticed by its reader
		return
	}
	c, carry := newConn(s), d.carry
	d.conns[c] = struct{}{}
	d.carrys.Go(func() {
		carry(c)
		c.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.conns, c)
	})
}

// Conn is a connection of the job's. One goroutine may read and one write.
type Conn struct {
	s *wire.Stream
	w *wire.Writer
	r io.Reader
}

func newConn(s *wire.Stream) *Conn {
	return &Conn{s: s, w: s.Writer(wire.Out), r: s.Reader(wire.In)}
}

// Read reads what the job sends. The error is io.EOF when it has closed its side.
func (c *Conn) Read(p []byte) (int, error) { return c.r.Read(p) }

// WriteTo copies all that the job sends, without a buffer of its own.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	return c.r.(io.WriterTo).WriteTo(w) //nolint:errcheck,forcetypeassert // see wire.Stream.Reader
}

// Write sends p at once.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err == nil {
		err = c.w.Flush()
	}
	c.w.Release()
	return n, err
}

// ReadFromConn sends what comes from a non-blocking descriptor until it ends, without
// another copy. sent is told of each portion that was sent, and may end it by an error.
func (c *Conn) ReadFromConn(raw syscall.RawConn, sent func(n int) error) error {
	return c.w.ReadFromConn(raw, sent)
}

// CloseWrite tells the job that nothing more comes.
func (c *Conn) CloseWrite() error { return c.w.Close() }

// Close ends the connection; a pending Read or Write fails.
func (c *Conn) Close() error {
	err := c.s.Close(&agentpb.Reply{})
	if errors.Is(err, wire.ErrPeerGone) || errors.Is(err, wire.ErrClosed) {
		return nil
	}
	return err
}
