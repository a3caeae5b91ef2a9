package intercept

import (
	"io"
	"net"
	"time"
)

// Conn is what TLS runs over; proxy.Conn is one. Close ends a pending Read or Write.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// netConn makes a net.Conn of it. Whoever opened the connection bounds its time by
// closing it, so it has no deadlines of its own.
type netConn struct{ Conn }

func (netConn) LocalAddr() net.Addr              { return nowhere{} }
func (netConn) RemoteAddr() net.Addr             { return nowhere{} }
func (netConn) SetDeadline(time.Time) error      { return nil }
func (netConn) SetReadDeadline(time.Time) error  { return nil }
func (netConn) SetWriteDeadline(time.Time) error { return nil }

// nowhere is an address that nobody asks for.
type nowhere struct{}

func (nowhere) Network() string { return "door" }
func (nowhere) String() string  { return "door" }
