package wire

import (
	"slices"
	"testing"
)

// TestTurn: what is small goes before what is large, and the large isn't forgotten.
func TestTurn(t *testing.T) {
	t.Parallel()
	var turn turn
	turn.lock(1)
	if turn.tryLock() {
		t.Fatal("it was held")
	}
	large := &waiter{size: 3 * quantum, ready: make(chan struct{})}
	turn.waiting = append(turn.waiting, large)
	var served []int
	for i := range 5 { // one more small one in each round
		small := &waiter{size: 10 + i, ready: make(chan struct{})}
		turn.waiting = append(turn.waiting, small)
		turn.unlock()
		for _, w := range []*waiter{large, small} {
			select {
			case <-w.ready:
				served = append(served, w.size)
				w.ready = make(chan struct{}) // not again
			default:
			}
		}
	}
	turn.unlock()
	turn.unlock()
	if want := []int{10, 11, 3 * quantum}; !slices.Equal(served[:3], want) {
		t.Errorf("served %v, want %v first", served, want)
	}
	if !turn.tryLock() {
		t.Error("the turn is still held")
	}
}
