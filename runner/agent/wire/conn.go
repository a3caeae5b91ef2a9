package wire

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// Config is what a side brings to a connection.
type Config struct {
	Side    Side
	Version uint32
	// Build names this build to the peer.
	Build string
	// Accept takes a stream that the peer has opened. It is called by the reader
	// and must not block. Without it the peer may not open streams.
	Accept func(*Stream, *agentpb.Request)
}

// Conn is one connection. Serve reads it; all other methods are safe for
// concurrent use.
type Conn struct {
	cfg Config
	rw  io.ReadWriteCloser
	out sender
	// spare is for the windows of the peer's streams.
	spare spare

	ready chan struct{} // closed once the peer's hello was accepted
	done  chan struct{} // closed once err is set

	mu       sync.Mutex
	streams  map[uint32]*Stream
	nextID   uint32
	lastPeer uint32 // highest id that the peer has opened
	opened   [2]int // open streams, by who has opened them
	lastPing uint64
	pings    map[uint64]chan struct{}
	err      error
}

// New makes a connection and sends this side's hello. Closing rw must end a
// pending Read.
func New(rw io.ReadWriteCloser, cfg Config) *Conn {
	c := &Conn{
		cfg: cfg, rw: rw,
		ready: make(chan struct{}), done: make(chan struct{}),
		streams: map[uint32]*Stream{}, pings: map[uint64]chan struct{}{},
		nextID: 1,
	}
	if cfg.Side == Guest {
		c.nextID = 2
	}
	// Its own goroutine: whoever sends may hold locks that fail takes.
	c.out.w, c.out.failed = rw, func(err error) { go c.fail(ending(err)) }
	hello := &agentpb.Hello{Version: cfg.Version, Build: cfg.Build}
	// A failure is the connection's and shows up in Serve.
	_ = c.out.post(&agentpb.Frame{Body: &agentpb.Frame_Hello{Hello: hello}})
	return c
}

// Serve reads frames until the connection ends and returns why. It never returns
// nil: ErrPeerGone and ErrClosed are the orderly ends.
func (c *Conn) Serve() error {
	r := frameReader{r: c.rw}
	for {
		if err := c.receive(&r); err != nil {
			c.fail(ending(err))
			return c.Err()
		}
	}
}

// ending gives an end of the byte stream one name, however it was noticed.
func ending(err error) error {
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, gone) {
			return ErrPeerGone
		}
	}
	if errors.Is(err, os.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Handshake waits for the peer's hello.
func (c *Conn) Handshake(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the connection has ended; Err then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection has ended, nil while it runs.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and all streams.
func (c *Conn) Close() { c.fail(ErrClosed) }

// Open starts a stream.
func (c *Conn) Open(req *agentpb.Request) (*Stream, error) {
	// Under the lock, so that ids reach the peer in order.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.opened[c.cfg.Side] >= c.cfg.Side.mayOpen() {
		return nil, errors.New("too many requests at once")
	}
	s := newStream(c, c.nextID, true)
	err := c.out.post(&agentpb.Frame{Stream: s.id, Body: &agentpb.Frame_Open{Open: req}})
	if err != nil {
		return nil, err
	}
	c.nextID += 2
	c.opened[c.cfg.Side]++
	c.streams[s.id] = s
	return s, nil
}

// Ping waits for the peer's answer.
func (c *Conn) Ping(ctx context.Context) error {
	c.mu.Lock()
	c.lastPing++
	id, answered := c.lastPing, make(chan struct{})
	c.pings[id] = answered
	c.mu.Unlock()
	if err := c.out.post(&agentpb.Frame{Body: &agentpb.Frame_Ping{Ping: id}}); err != nil {
		return err
	}
	select {
	case <-answered:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fail ends the connection with its first error.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	streams := c.streams
	c.streams = nil
	c.mu.Unlock()
	close(c.done)
	for _, s := range streams {
		s.fail(err)
	}
	_ = c.rw.Close() // the first error is the one that counts
}

// forget drops a stream that both sides have closed.
func (c *Conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.streams[id]; ok {
		delete(c.streams, id)
		c.opened[opener(id)]--
	}
}

// opener is the side that opens streams of this id.
func opener(id uint32) Side {
	if id%2 == 1 {
		return Host
	}
	return Guest
}
