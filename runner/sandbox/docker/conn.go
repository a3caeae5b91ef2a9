package docker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/sandbox/tail"
)

// conn is the agent's stream, on a container's attached standard streams. The
// engine sends stdout and stderr in frames of one stream; what comes on stderr goes
// to the log.
type conn struct {
	net.Conn
	r   *bufio.Reader
	log tail.Buffer

	mu sync.Mutex // Held while reading.
	// left is what the current frame still has for stdout.
	left int64
	err  error
	// ended is closed once the stream has.
	ended chan struct{}
}

func newConn(c net.Conn, r *bufio.Reader) *conn {
	return &conn{Conn: c, r: r, ended: make(chan struct{})}
}

// fail notes why the stream has ended. c.mu is held.
func (c *conn) fail(err error) {
	if c.err == nil && err != nil {
		c.err = err
		close(c.ended)
	}
}

// Kinds of frame, and the most that one may claim to hold. Engines send what they
// have read at once, some tens of kilobytes.
const (
	frameHeader = 8
	frameStdout = 1
	frameStderr = 2
	maxFrame    = 16 << 20
)

// Read returns the agent's bytes. What isn't a frame ends the stream.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for c.err == nil && c.left == 0 {
		c.fail(c.next())
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.fail(err)
	if n > 0 {
		err = nil
	}
	return n, err
}

// next reads a frame's header, and all of a frame that isn't the agent's.
func (c *conn) next() error {
	var h [frameHeader]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(h[4:]))
	if h[1] != 0 || h[2] != 0 || h[3] != 0 || size > maxFrame {
		return fmt.Errorf("the engine sends what is no frame: %x", h)
	}
	switch h[0] {
	case frameStdout:
		c.left = size
		return nil
	case frameStderr:
		_, err := io.CopyN(&c.log, c.r, size)
		return err
	}
	return fmt.Errorf("the engine sends a frame of the unknown kind %d", h[0])
}

// note adds a line of ours to the log.
func (c *conn) note(text string) { _, _ = io.WriteString(&c.log, text) }

// drainTime is how long the last words of an ended container may take.
const drainTime = 200 * time.Millisecond

// drain reads what is left for the log, when nobody else reads any more.
func (c *conn) drain() {
	_ = c.SetReadDeadline(time.Now().Add(drainTime))
	if !c.mu.TryLock() {
		return // its reader sees to it
	}
	defer c.mu.Unlock()
	for c.err == nil {
		if c.left > 0 {
			_, err := io.CopyN(io.Discard, c.r, c.left)
			c.left = 0
			c.fail(err)
			continue
		}
		c.fail(c.next())
	}
}
