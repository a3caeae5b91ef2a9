package wire

import (
	"io"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// windowOf is the window that the host has given to a stream of the guest's.
func windowOf(s *Stream) int {
	s.in[In].mu.Lock()
	defer s.in[In].mu.Unlock()
	return s.in[In].limit
}

// TestWindowGrows: a connection that is read as fast as it comes may have more on the
// way, one that isn't read keeps what it had, and all give back what they were given.
func TestWindowGrows(t *testing.T) {
	t.Parallel()
	accepted := make(chan *Stream)
	h, g := transports["pipes"](t)
	host := serve(t, h, Config{Side: Host, Accept: func(s *Stream, _ *agentpb.Request) { accepted <- s }})
	guest := serve(t, g, Config{Side: Guest, Accept: echo})
	send := func(n int64) *Stream {
		s := open(t, guest)
		go func() {
			w := s.Writer(In)
			_, _ = io.Copy(struct{ io.Writer }{w}, io.LimitReader(zeros{}, n))
			_ = w.Close()
		}()
		return <-accepted
	}
	slow, fast := send(1<<30), send(256<<20)
	waitFor(t, func() bool { // all that it may send has come
		slow.in[In].mu.Lock()
		defer slow.in[In].mu.Unlock()
		return slow.in[In].window == 0
	})
	if n, err := io.Copy(io.Discard, fast.Reader(In)); n != 256<<20 || err != nil {
		t.Fatal(n, err)
	}
	if got := windowOf(fast); got <= NarrowWindow || got > Window {
		t.Errorf("the window of the one that is read: %d", got)
	}
	if got := windowOf(slow); got != NarrowWindow {
		t.Errorf("the window of the one that isn't read: %d", got)
	}
	for _, s := range []*Stream{slow, fast} {
		_ = s.Close(&agentpb.Reply{})
	}
	if used := host.spare.used.Load(); used != 0 {
		t.Errorf("%d bytes weren't given back", used)
	}
}

// TestSpareIsBounded: connections together get no more than there is.
func TestSpareIsBounded(t *testing.T) {
	t.Parallel()
	var s spare
	boxes := make([]*inbox, 100)
	for i := range boxes {
		boxes[i] = newInbox(narrow, &s, func(int) {})
		for range 10 {
			b := boxes[i]
			b.mu.Lock()
			b.window, b.owed = b.limit/2, b.limit/2 // all was read
			b.grow()
			b.mu.Unlock()
		}
	}
	if got := s.used.Load(); got > MaxSpare || got < MaxSpare-Window {
		t.Errorf("%d bytes are used", got)
	}
	for _, b := range boxes {
		b.end(ErrClosed, true)
		b.end(ErrClosed, true)
	}
	if got := s.used.Load(); got != 0 {
		t.Errorf("%d bytes weren't given back", got)
	}
}

// zeros reads as zero bytes for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it didn't happen in time")
		}
	}
}
