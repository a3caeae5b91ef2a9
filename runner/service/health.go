package service

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/pause"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/tail"
)

// How often things happen.
const (
	publishEvery = queue.HealthTTL / 3
	// probeEvery is how often the sandboxes are tested again though nothing changed.
	probeEvery = 6 * time.Hour
	// probeTimeout bounds a test.
	probeTimeout = 5 * time.Minute
)

// watch keeps the health record true and tests the sandboxes, until ctx ends.
func (s *Service) watch(ctx context.Context) {
	var tests sync.WaitGroup
	defer tests.Wait()
	testing := make(chan struct{}, 1)
	for ctx.Err() == nil {
		changed := s.gate.change() // what changes from here on is seen by the next round
		s.look(ctx)
		if s.gate.stale(time.Now()) {
			select {
			case testing <- struct{}{}:
				tests.Go(func() { s.probe(ctx); <-testing })
			default: // one is under way
			}
		}
		if err := s.publish(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("publishing the health record failed", "error", err)
		}
		select {
		case <-time.After(publishEvery):
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// look sees what this host is and offers now.
func (s *Service) look(ctx context.Context) {
	err := s.gate.look(ctx, s)
	if err == nil {
		err = s.worker.Offer(s.gate.classes()...)
	}
	if err != nil {
		s.Log.Warn("looking at this host failed", "error", err)
		s.gate.suspect("looking at this host failed: " + err.Error())
	}
}

// probe tests the sandboxes and opens or closes the gate.
func (s *Service) probe(ctx context.Context) {
	_ = pause.For(ctx, s.gate.penance())
	tested := s.gate.identity()
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errSlow)
	defer cancel()
	smoke, err := s.Probe(ctx)
	if ctx.Err() != nil && err == nil {
		err = context.Cause(ctx)
	}
	s.gate.judge(smoke, tested, err)
	s.tell(smoke, err)
}

// Bounds of what is told of a test that failed.
const (
	maxReasons = 16
	maxReason  = 500
)

// tell writes what a test said into the log. What came out of a sandbox is cut and
// escaped.
func (s *Service) tell(smoke queue.Smoke, err error) {
	h := s.gate.record()
	s.Log.Info("the sandboxes were tested", "state", h.State, "why", h.Why, "failed", smoke.Failed, "error", err)
	for i, why := range smoke.Why {
		if i == maxReasons {
			s.Log.Warn("more probes failed", "count", len(smoke.Why)-i)
			return
		}
		why = tail.Escape(why[:min(len(why), maxReason)])
		s.Log.Warn("a probe failed", "what", strings.NewReplacer("\n", " ", "\t", " ").Replace(why))
	}
}

var errSlow = errors.New("it took too long")

func (s *Service) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, publishEvery, errSlow)
	defer cancel()
	h := s.gate.record()
	h.Version, h.Backend = s.Version, s.Backend.Name()
	h.Classes, h.Started = s.gate.classes(), s.started
	h.Slots, h.Busy = s.Slots, int(s.busy.Load())
	h.Policies = map[string]string{}
	for p, why := range s.Backend.Policies() {
		h.Policies[string(p)] = why
	}
	if !s.Network {
		h.Policies[string(sandbox.PolicyRegistries)] = "this runner lets nobody out"
	}
	return s.worker.PublishHealth(ctx, h)
}

// Alive says whether the service still turns: that its state can be looked at. Valkey
// being away is no reason to kill the jobs.
func (s *Service) Alive() bool {
	looked := make(chan struct{})
	go func() { s.gate.record(); close(looked) }()
	select {
	case <-looked:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// Retest tests the sandboxes on demand, by probe. What it says counts as if the service
// had tested by itself, unless ctx ended before it was through.
func (s *Service) Retest(ctx context.Context, probe func(context.Context) (queue.Smoke, error)) (queue.Smoke, error) {
	s.look(ctx)
	tested := s.gate.identity()
	smoke, err := probe(ctx)
	if ctx.Err() != nil {
		return smoke, context.Cause(ctx)
	}
	s.gate.judge(smoke, tested, err)
	s.tell(smoke, err)
	return smoke, err
}
