package wire

import (
	"errors"
	"io"
	"sync"
)

// chunk is a buffer that holds received data from lo to hi.
type chunk struct {
	buf    *buffer
	lo, hi int
}

// inbox holds the bytes of one channel that were received and not yet read.
type inbox struct {
	mu    sync.Mutex
	ready sync.Cond
	flow  *flow
	queue []chunk
	// limit is how many bytes may be on the way or unread; window is how many of them
	// the peer may still send, owed what was read but not yet given back as credit.
	limit, window, owed int
	spare               *spare
	// err ends the channel once the queue is empty: io.EOF or a failure.
	err error
	// give sends credit to the peer.
	give func(n int)
}

func newInbox(f *flow, s *spare, give func(int)) *inbox {
	b := &inbox{flow: f, limit: f.window, window: f.window, spare: s, give: give}
	b.ready.L = &b.mu
	return b
}

// receive takes n bytes of data from r. More than the window is a violation, and
// so is data after the end.
func (b *inbox) receive(r *frameReader, n int) error {
	if err := b.expect(n); err != nil {
		return err
	}
	if n < smallest/2 || n > MaxData {
		p, err := r.peek(n)
		if err == nil {
			b.push(p)
		}
		return err
	}
	// The lock isn't held: this may wait for the peer.
	c := chunk{buf: newBuffer(n), hi: n}
	if err := r.take(c.buf.b[:n]); err != nil {
		return err
	}
	b.append(c)
	return nil
}

// expect makes sure that n bytes may come.
func (b *inbox) expect(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.window {
		return violation("more data than credit")
	}
	if errors.Is(b.err, io.EOF) {
		return violation("data after the end of a channel")
	}
	b.window -= n
	return nil
}

// push copies data to the queue.
func (b *inbox) push(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return // nobody will read it
	}
	for len(p) > 0 {
		n := copy(b.space(), p)
		b.queue[len(b.queue)-1].hi += n
		p = p[n:]
	}
	b.ready.Signal()
}

// append puts a chunk of data at the end of the queue.
func (b *inbox) append(c chunk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		c.buf.release()
		return
	}
	b.queue = append(b.queue, c)
	b.ready.Signal()
}

// space returns room in the last chunk, never none. Filling chunks up bounds the
// memory of a channel whatever the size of its frames.
func (b *inbox) space() []byte {
	if n := len(b.queue); n > 0 {
		if c := &b.queue[n-1]; c.hi < len(c.buf.b) {
			return c.buf.b[c.hi:]
		}
	}
	c := chunk{buf: newBuffer(smallest)}
	b.queue = append(b.queue, c)
	return c.buf.b
}

// end closes the channel for reading with err after what was received; with
// drop, at once.
func (b *inbox) end(err error, drop bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	if drop {
		for _, c := range b.queue {
			c.buf.release()
		}
		b.queue = nil
		b.spare.give(b.limit - b.flow.window)
		b.limit = b.flow.window
	}
	b.ready.Broadcast()
}

// wait blocks until there is data or an end; b.mu is held.
func (b *inbox) wait() error {
	for len(b.queue) == 0 && b.err == nil {
		b.ready.Wait()
	}
	if len(b.queue) == 0 {
		return b.err
	}
	return nil
}

// Read implements io.Reader.
func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	if err := b.wait(); err != nil {
		b.mu.Unlock()
		return 0, err
	}
	c := &b.queue[0]
	n := copy(p, c.buf.b[c.lo:c.hi])
	if c.lo += n; c.lo == c.hi {
		c.buf.release()
		b.pop()
	}
	b.consumed(n)
	return n, nil
}

// WriteTo implements io.WriterTo: whole chunks go to w without another copy.
func (b *inbox) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		b.mu.Lock()
		if err := b.wait(); err != nil {
			b.mu.Unlock()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return total, err
		}
		c := b.queue[0]
		b.pop()
		b.mu.Unlock()
		n, err := w.Write(c.buf.b[c.lo:c.hi])
		c.buf.release()
		total += int64(n)
		if err != nil {
			return total, err
		}
		b.mu.Lock()
		b.consumed(c.hi - c.lo)
	}
}

func (b *inbox) pop() {
	b.queue[0] = chunk{}
	if b.queue = b.queue[1:]; len(b.queue) == 0 {
		b.queue = nil
	}
}

// consumed accounts for n bytes that were read and unlocks b.mu. Credit goes back
// in large portions: each wakes the peer.
func (b *inbox) consumed(n int) {
	b.owed += n
	credit := 0
	if b.owed >= b.limit/2 && b.err == nil {
		credit = b.owed + b.grow()
		b.window += credit
		b.owed = 0
	}
	b.mu.Unlock()
	if credit > 0 {
		b.give(credit)
	}
}

// grow doubles the window of a channel that is read faster than its peer may send,
// and returns by how much; b.mu is held.
func (b *inbox) grow() int {
	n := b.limit
	unread := b.limit - b.window - b.owed
	if unread > b.limit/4 || 2*n > b.flow.most || !b.spare.take(n) {
		return 0
	}
	b.limit += n
	return n
}
