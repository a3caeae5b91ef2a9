package envelope

import (
	"sync"
	"time"
)

// Guard refuses replays that the queue's own record of a job can't: its memory is
// the runner's, whatever happens to the queue. It knows redelivery: the same
// envelope may come again as a later attempt, until its job has ended.
type Guard struct {
	mu   sync.Mutex
	seen map[Nonce]*sighting
	// sweep is when to drop what has expired.
	sweep time.Time
}

type sighting struct {
	attempt uint32
	ended   bool
	until   time.Time
}

// sweepEvery is how often expired entries are looked for.
const sweepEvery = time.Minute

// Admit remembers the delivery of an envelope until a time after which it can't be
// opened any more. Only envelopes that opened may come here, so that strangers
// can't fill the memory.
func (g *Guard) Admit(n Nonce, attempt uint32, until, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(now)
	s := g.seen[n]
	switch {
	case s == nil:
		s = &sighting{}
		if g.seen == nil {
			g.seen = map[Nonce]*sighting{}
		}
		g.seen[n] = s
	case s.ended:
		return refuse(Replayed, "the job has ended here")
	case attempt <= s.attempt:
		return refuse(Replayed, "attempt %d was here already", attempt)
	}
	s.attempt, s.until = attempt, until
	return nil
}

// End remembers that the envelope's job has ended: no attempt may follow.
func (g *Guard) End(n Nonce) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.seen[n]; s != nil {
		s.ended = true
	}
}

func (g *Guard) drop(now time.Time) {
	if now.Before(g.sweep) {
		return
	}
	g.sweep = now.Add(sweepEvery)
	for n, s := range g.seen {
		if now.After(s.until) {
			delete(g.seen, n)
		}
	}
}
