package proxy

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
)

// relay moves bytes both ways until both directions have ended or one has failed.
func (c *client) relay(up Conn) {
	both(
		func() error { return c.oneWay(up, c.conn, &c.in, &c.sent) },
		func() error { return c.oneWay(c.conn, up, nil, &c.received) },
		func() { up.Close(); c.conn.Close() },
	)
}

// Join moves bytes both ways between two connections, and closes them.
func Join(a, b Conn) {
	oneWay := func(dst, src Conn) error {
		if err := move(dst, src); err != nil {
			return err
		}
		return dst.CloseWrite()
	}
	end := func() { a.Close(); b.Close() }
	both(func() error { return oneWay(a, b) }, func() error { return oneWay(b, a) }, end)
	end()
}

// both runs two directions to their ends. A failure of one ends the other.
func both(there, back func() error, end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if there() != nil {
			end()
		}
	}()
	if back() != nil {
		end()
	}
	<-done
}

// oneWay moves one direction to its end, and hands that on.
func (c *client) oneWay(dst, src Conn, before *input, count *atomic.Int64) error {
	if err := c.flush(dst, before, count); err != nil {
		return err
	}
	if err := move(c.meter(dst, count), src); err != nil {
		return err
	}
	return dst.CloseWrite()
}

// flush sends what was read ahead.
func (c *client) flush(dst io.Writer, before *input, count *atomic.Int64) error {
	if before == nil || len(before.rest) == 0 {
		return nil
	}
	rest := before.rest
	before.rest = nil
	_, err := c.meter(dst, count).Write(rest)
	return err
}

func (c *client) meter(w io.Writer, count *atomic.Int64) io.Writer { return &meter{w, c, count} }

// meter counts what is written, and stops what is more than the session may move.
type meter struct {
	w     io.Writer
	c     *client
	count *atomic.Int64
}

var errBytes = errors.New("the job has moved all the bytes it may")

// Write implements io.Writer.
func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	return n, cmp.Or(err, m.add(n))
}

// add counts n bytes that were written.
func (m *meter) add(n int) error {
	m.count.Add(int64(n))
	m.c.watch.moved.Add(int64(n))
	if m.c.s.moved.Add(int64(n)) > m.c.s.proxy.cfg.Limits.Bytes {
		m.c.count(ReasonBytes)
		return errBytes
	}
	return nil
}

// descriptorReader is a connection that reads from a descriptor into its own buffers;
// agent.Conn is.
type descriptorReader interface {
	ReadFromConn(raw syscall.RawConn, sent func(n int) error) error
}

// portion is how much is moved at once.
const portion = 512 << 10

var portions = sync.Pool{New: func() any { return new([portion]byte) }}

// move copies until the end of src. While it waits for a socket it holds no buffer,
// and neither does a connection that brings its own chunks.
func move(w io.Writer, src io.Reader) error {
	if s, ok := src.(syscall.Conn); ok {
		raw, err := s.SyscallConn()
		if err != nil {
			return err
		}
		switch d := w.(type) {
		case *meter:
			if r, ok := d.w.(descriptorReader); ok {
				return r.ReadFromConn(raw, d.add)
			}
		case descriptorReader:
			return d.ReadFromConn(raw, func(int) error { return nil })
		}
		return moveRaw(w, raw)
	}
	if s, ok := src.(io.WriterTo); ok {
		_, err := s.WriteTo(w)
		return err
	}
	buf := portions.Get().(*[portion]byte) //nolint:errcheck,forcetypeassert // it is our pool
	defer portions.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, buf[:])
	return err
}

// moveRaw copies from a non-blocking descriptor.
func moveRaw(w io.Writer, raw syscall.RawConn) error {
	var buf *[portion]byte
	defer func() {
		if buf != nil {
			portions.Put(buf)
		}
	}()
	for {
		var n int
		var err error
		rawErr := raw.Read(func(fd uintptr) bool {
			if buf == nil {
				buf = portions.Get().(*[portion]byte) //nolint:errcheck,forcetypeassert // it is our pool
			}
			n, err = syscall.Read(int(fd), buf[:])
			if errors.Is(err, syscall.EAGAIN) {
				portions.Put(buf)
				buf = nil
				return false
			}
			return true
		})
		switch {
		case rawErr != nil:
			return rawErr
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return nil
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
	}
}
