package wire

import "sync"

// quantum is what a waiter may have more to send in each round.
const quantum = 64 << 10

// turn is a lock whose waiters are served by deficit round robin over the bytes they
// hold it for: one with little to send goes before those with much, which still get
// there after a bounded number of rounds. A stream has a waiter for each channel at
// most, so no stream holds up another for longer than a frame of each takes.
type turn struct {
	mu      sync.Mutex
	held    bool
	waiting []*waiter
}

type waiter struct {
	size, deficit int
	ready         chan struct{}
}

// lock waits for the turn to send so many bytes.
func (t *turn) lock(size int) {
	t.mu.Lock()
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return
	}
	w := &waiter{size: size, ready: make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	<-w.ready
}

// tryLock takes the turn if nobody has it.
func (t *turn) tryLock() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		return false
	}
	t.held = true
	return true
}

// unlock hands the turn on.
func (t *turn) unlock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.held = false
		return
	}
	close(t.next().ready)
}

// next takes out the waiter whose turn it is; t.mu is held.
func (t *turn) next() *waiter {
	for {
		w := t.waiting[0]
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
		if w.deficit += quantum; w.deficit >= w.size {
			return w
		}
		t.waiting = append(t.waiting, w)
	}
}
