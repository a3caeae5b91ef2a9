// Package service is what `quavon runner` does: it takes jobs from the queue, runs
// each in a sandbox of its own, and hands its result back. Nothing connects to it.
// It takes jobs only while tests of its sandboxes have passed.
package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/pause"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox"
)

// Runner runs a job to its end, as runner.Runner does.
type Runner interface {
	Run(ctx context.Context, spec job.Spec, streams runner.Streams) (job.Result, error)
}

// Options are all that a service needs. Those without a default are required.
type Options struct {
	Queue   *queue.Queue
	Runner  Runner
	Backend sandbox.Backend
	// ID names this runner on the queue.
	ID string
	// Dir is a directory for this service's files. What is in it is removed.
	Dir string
	// Images lists the digests of images that jobs may use, each image with all of
	// its digests; nil lists none.
	Images func(context.Context) ([]string, error)
	// Identify says what of this host tests of its sandboxes depend on.
	Identify func(context.Context) (Identity, error)
	// Probe tests the sandboxes.
	Probe func(context.Context) (queue.Smoke, error)
	// Inspect answers challenges, with at most queue.MaxAnswer bytes; nil answers none.
	Inspect func(context.Context, queue.Challenge) []byte

	// Network says that steps with a network have a way out.
	Network bool
	// Slots is how many jobs run at once: 1.
	Slots int
	// Bounds are what jobs may ask for.
	Bounds Bounds
	// Drain is how long jobs may go on when the service is to stop: 60 s.
	Drain time.Duration
	// Hurry ends what is graceful about stopping once it is closed.
	Hurry <-chan struct{}
	// Observe hears of each job's way, and holds it up while it listens.
	Observe func(context.Context, Event)
	Version string
	Log     *slog.Logger
}

// Identity is a runner's host and what runs there.
type Identity struct {
	// Host identifies the machine, Boot its running kernel.
	Host, Boot string

	Runtime  sandbox.Runtime
	Evidence evidence.Bound
}

// Service is a runner of the queue.
type Service struct {
	Options
	started time.Time
	worker  *queue.Worker
	gate    gate
	// free has an element per free slot.
	free chan struct{}
	jobs sync.WaitGroup
	busy atomic.Int64
}

// New makes a service.
func New(o Options) *Service {
	o.Slots = max(1, o.Slots)
	o.Drain = cmp.Or(o.Drain, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(context.Context, Event) {}
	}
	s := &Service{Options: o, started: time.Now(), free: make(chan struct{}, o.Slots)}
	for range o.Slots {
		s.free <- struct{}{}
	}
	s.gate.init()
	return s
}

// Causes of ending jobs.
var (
	errHandBack = errors.New("the runner stops, and hands its jobs back")
	errStopped  = errors.New("the runner has stopped")
)

// stopGrace is how long results and jobs may take to get back to the queue after
// everything else has ended.
const stopGrace = 10 * time.Second

// Run works until ctx ends, and then until its jobs have ended or were handed back.
// ready is called when it has told the queue of itself for the first time.
func (s *Service) Run(ctx context.Context, ready func()) error {
	if err := s.reap(ctx); err != nil {
		return err
	}
	// Jobs, leases and health outlive ctx.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(errStopped)
	if err := s.open(ctx, life); err != nil {
		return err
	}
	defer s.worker.Close()
	if ready != nil {
		ready()
	}
	work, handBack := context.WithCancelCause(life)
	defer handBack(errStopped)
	var loops sync.WaitGroup
	loops.Go(func() { s.watch(life) })
	if s.Inspect != nil {
		loops.Go(func() { s.worker.Answers(life, s.Inspect) })
	}
	s.claimLoop(ctx, work)
	s.drain(handBack)
	end(errStopped)
	loops.Wait()
	s.sayGoodbye(ctx)
	return nil
}

// open looks at the host and begins the work on the queue.
func (s *Service) open(ctx, life context.Context) error {
	if err := s.gate.look(ctx, s); err != nil {
		return err
	}
	w, err := s.Queue.Worker(life, s.ID, s.gate.classes()...)
	if err != nil {
		return err
	}
	s.worker = w
	if err := s.publish(ctx); err != nil {
		w.Close()
		return err
	}
	return nil
}

// reap removes what crashed runners and runs have left, before the first job.
func (s *Service) reap(ctx context.Context) error {
	ids, err := s.Backend.Reap(ctx)
	if len(ids) > 0 {
		s.Log.Info("removed what crashed runs left", "sandboxes", ids)
	}
	if err != nil {
		return fault.Wrap(err, "remove what crashed runs left", fault.Hint(err))
	}
	return empty(s.Dir)
}

// claimLoop takes jobs while there are free slots and the gate is open, until ctx
// ends.
func (s *Service) claimLoop(ctx, work context.Context) {
	for {
		n := s.takeSlots(ctx)
		if n == 0 {
			return
		}
		claims := s.claim(ctx, n)
		for _, c := range claims {
			s.jobs.Go(func() {
				s.busy.Add(1)
				s.attempt(work, c)
				s.busy.Add(-1)
				s.free <- struct{}{}
			})
		}
		s.giveSlots(n - len(claims))
	}
}

// claim waits for the gate, and then for jobs. Nil means to look again, or that ctx
// has ended.
func (s *Service) claim(ctx context.Context, n int) []*queue.Claim {
	ctx, cancel, err := s.gate.pass(ctx)
	if err != nil {
		return nil
	}
	defer cancel()
	claims, err := s.worker.Claim(ctx, n)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("claiming jobs failed", "error", err)
		_ = pause.For(ctx, time.Second)
	}
	return claims
}

// takeSlots waits for a free slot and takes all that are; 0 when ctx ends.
func (s *Service) takeSlots(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-s.free:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		select {
		case <-s.free:
		default:
			return n
		}
	}
}

func (s *Service) giveSlots(n int) {
	for range n {
		s.free <- struct{}{}
	}
}

// drain waits for the jobs; those that take too long are handed back.
func (s *Service) drain(handBack context.CancelCauseFunc) {
	s.gate.drain()
	ended := make(chan struct{})
	go func() { s.jobs.Wait(); close(ended) }()
	select {
	case <-ended:
		return
	case <-time.After(s.Drain):
		s.Log.Warn("the jobs take too long: they are handed back", "after", s.Drain)
	case <-s.Hurry:
		s.Log.Warn("the jobs are handed back at once")
	}
	handBack(errHandBack)
	<-ended
}

// sayGoodbye takes the health record back.
func (s *Service) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopGrace, errStopped)
	defer cancel()
	if err := s.worker.RemoveHealth(ctx); err != nil {
		s.Log.Warn("the health record stays until its time is over", "error", err)
	}
}
