package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/task"
)

// gate holds jobs back unless the sandboxes have been tested as they are now.
type gate struct {
	mu       sync.Mutex
	state    queue.State
	why      string
	draining bool
	smoke    *queue.Smoke
	now      Identity
	images   []string
	hostRoot bool
	// changed is closed and replaced when the state changes.
	changed chan struct{}
	// failures counts jobs and tests that found no sandbox since the last job that did.
	failures int
}

func (g *gate) init() {
	g.state, g.why = queue.StateUnknown, "not tested yet"
	g.changed = make(chan struct{})
}

var errClosed = errors.New("the runner takes no jobs now")

// pass waits until the gate is open. The context that it returns ends when the gate
// closes.
func (g *gate) pass(ctx context.Context) (context.Context, context.CancelFunc, error) {
	for {
		g.mu.Lock()
		open, changed := g.state == queue.StateHealthy && !g.draining, g.changed
		g.mu.Unlock()
		if open {
			ctx, cancel := context.WithCancelCause(ctx)
			go func() {
				select {
				case <-changed:
					cancel(errClosed)
				case <-ctx.Done():
				}
			}()
			return ctx, func() { cancel(context.Canceled) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx, nil, context.Cause(ctx)
		}
	}
}

// set changes the state and wakes who waits for that.
func (g *gate) set(state queue.State, why string) {
	if g.state == state && g.why == why {
		return
	}
	g.state, g.why = state, why
	close(g.changed)
	g.changed = make(chan struct{})
}

// suspect closes the gate until a new test has passed: the sandboxes fail.
func (g *gate) suspect(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	g.set(queue.StateUnknown, why)
}

// trust notes that a job had its sandbox.
func (g *gate) trust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = 0
}

// penance is how long to wait before a new test, so that a host on which tests pass
// and jobs fail doesn't eat the queue.
func (g *gate) penance() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures == 0 {
		return 0
	}
	return min(time.Second<<min(g.failures, 8), 2*time.Minute)
}

func (g *gate) drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
	close(g.changed)
	g.changed = make(chan struct{})
}

// look sees what is here now. When it isn't what was tested, the state is unknown.
func (g *gate) look(ctx context.Context, s *Service) error {
	now, err := s.Identify(ctx)
	if err != nil {
		return err
	}
	var images []string
	if s.Images != nil {
		if images, err = s.Images(ctx); err != nil {
			return err
		}
		slices.Sort(images)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	why, ok := s.Backend.Policies()[sandbox.PolicyRootHost]
	g.now, g.images, g.hostRoot = now, images, ok && why == sandbox.Enforced
	if g.smoke != nil && !g.smoke.Bound.Equal(now.Evidence) {
		g.smoke = nil
		g.set(queue.StateUnknown, "what was tested has changed since")
	}
	return nil
}

// classes are what jobs can ask this runner for.
func (g *gate) classes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	classes := slices.Clone(g.images)
	if g.hostRoot || len(classes) == 0 {
		classes = append(classes, task.ClassHost)
	}
	return classes
}

// stale says whether the sandboxes are to be tested now.
func (g *gate) stale(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.smoke == nil || !g.smoke.Fresh(now, probeEvery) || g.state == queue.StateUnknown
}

// judge takes a test's word, unless the host changed while it ran.
func (g *gate) judge(smoke queue.Smoke, tested Identity, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.smoke = nil
		g.failures++
		g.set(queue.StateUnknown, "the test could not be run: "+err.Error())
		return
	case !tested.Evidence.Equal(g.now.Evidence):
		return
	}
	smoke.Bound = tested.Evidence
	g.smoke = &smoke
	if smoke.Passed {
		g.set(queue.StateHealthy, "")
		return
	}
	g.set(queue.StateFailed, "a test of the sandbox failed")
}

// change is closed at the next change of state.
func (g *gate) change() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// identity is what was seen last.
func (g *gate) identity() Identity {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

// record is what the gate has to say in a health record.
func (g *gate) record() queue.Health {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := queue.Health{
		Host: g.now.Host, Boot: g.now.Boot, Runtime: g.now.Runtime.Version, Platform: g.now.Runtime.Platform,
		State: g.state, Why: g.why, Smoke: g.smoke, Images: g.images,
	}
	if g.draining {
		h.State, h.Why = queue.StateDraining, "the runner is stopping"
	}
	return h
}
