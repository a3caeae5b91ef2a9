package wire

import (
	"errors"
	"io"
	"sync"
)

// outbox counts what may be sent on one channel.
type outbox struct {
	mu     sync.Mutex
	more   sync.Cond
	flow   *flow
	credit int
	err    error
}

func newOutbox(f *flow) *outbox {
	o := &outbox{flow: f, credit: f.window}
	o.more.L = &o.mu
	return o
}

// add records credit from the peer.
func (o *outbox) add(n int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > o.flow.most-o.credit {
		return violation("more credit than the window")
	}
	o.credit += n
	o.more.Broadcast()
	return nil
}

// end makes every wait for credit fail with err.
func (o *outbox) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.more.Broadcast()
}

// wait blocks until something may be sent and returns how much, at most n.
func (o *outbox) wait(n int) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.credit == 0 && o.err == nil {
		o.more.Wait()
	}
	return min(n, o.credit), o.err
}

func (o *outbox) spend(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credit -= n
}

// Writer sends the bytes of one channel; it is used by one goroutine at a time.
// Write gathers full frames, ReadFrom sends what each read returns unless Bulk
// is set.
type Writer struct {
	// Bulk makes ReadFrom fill frames before it sends them.
	Bulk bool

	s   *Stream
	ch  Channel
	out *outbox
	buf *buffer
	end int // of the gathered data in buf, which starts at headRoom
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(w.space(), p)
		w.end += n
		p = p[n:]
		if w.end == len(w.buf.b) {
			if err := w.Flush(); err != nil {
				return total - len(p), err
			}
		}
	}
	return total, nil
}

// ReadFrom implements io.ReaderFrom. It waits for credit before it reads, so
// what can't be sent yet stays with r.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		room := w.space()
		if w.end == headRoom {
			n, err := w.out.wait(len(room))
			if err != nil {
				return total, err
			}
			room = room[:n]
		}
		n, err := r.Read(room)
		total += int64(n)
		w.end += n
		if !w.Bulk || err != nil || n == len(room) {
			if ferr := w.Flush(); ferr != nil {
				return total, ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// space returns room for data, never none.
func (w *Writer) space() []byte {
	if w.buf == nil {
		w.buf = newBuffer(MaxData)
		w.end = headRoom
	}
	return w.buf.b[w.end:]
}

// Flush sends what was gathered, as credit allows.
func (w *Writer) Flush() error {
	if w.buf == nil {
		return nil
	}
	start := headRoom
	for start < w.end {
		n, err := w.out.wait(w.end - start)
		if err != nil {
			return err
		}
		// The header of a later part overwrites data that has been sent.
		b := sealData(w.buf.b[start-headRoom:], w.s.id, w.ch, headRoom+n)
		w.out.spend(n)
		if err := w.s.c.out.data(b, w.s.open); err != nil {
			return err
		}
		start += n
	}
	w.end = headRoom
	return nil
}

// Close sends what was gathered and ends the channel.
func (w *Writer) Close() error {
	err := w.Flush()
	w.Release()
	if err != nil {
		return err
	}
	return w.s.endChannel(w.ch)
}

// Release gives the buffer back without ending the channel.
func (w *Writer) Release() {
	if w.buf != nil {
		w.buf.release()
		w.buf = nil
	}
}
