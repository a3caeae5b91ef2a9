package intercept

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Conn is what TLS runs over; proxy.Conn is one. Close ends a pending Read or Write.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// netConn makes a net.Conn of it. Whoever opened the connection bounds its time by
// closing it; deadlines are for what has them, so that TLS doesn't wait with its last word
// for one who doesn't read.
type netConn struct {
	Conn
	// ended says that the other end has closed.
	ended atomic.Bool
}

func (c *netConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		c.ended.Store(true)
	}
	return n, err
}

func (*netConn) LocalAddr() net.Addr  { return nowhere{} }
func (*netConn) RemoteAddr() net.Addr { return nowhere{} }

// deadlines are what a socket has.
type deadlines interface {
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

func (c *netConn) with(set func(deadlines) error) error {
	if d, ok := c.Conn.(deadlines); ok {
		return set(d)
	}
	return nil
}

func (c *netConn) SetDeadline(t time.Time) error {
	return c.with(func(d deadlines) error { return d.SetDeadline(t) })
}

func (c *netConn) SetReadDeadline(t time.Time) error {
	return c.with(func(d deadlines) error { return d.SetReadDeadline(t) })
}

func (c *netConn) SetWriteDeadline(t time.Time) error {
	return c.with(func(d deadlines) error { return d.SetWriteDeadline(t) })
}

// Host is a connection to the real host, inside TLS.
type Host struct {
	*tls.Conn
	raw *netConn
}

// Read implements io.Reader. Go's TLS has io.EOF also for a connection that was cut, on
// the way maybe, before the host has said that it ends; here that is io.ErrUnexpectedEOF.
func (h *Host) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if errors.Is(err, io.EOF) && h.raw.ended.Load() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// nowhere is an address that nobody asks for.
type nowhere struct{}

func (nowhere) Network() string { return "door" }
func (nowhere) String() string  { return "door" }
