package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/quavon/quavon/runner/egress/intercept"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
)

// Grant is what one step of a job may do.
type Grant struct {
	// Job and Step name the step in the log.
	Job  string
	Step int
	// Policy is the job's own; the operator's counts besides.
	Policy policy.Policy
	// Secrets may be used by the step; Authority vouches for their hosts.
	Secrets   secret.Set
	Authority *intercept.Authority
	// Moved is how many bytes the job's steps before have moved: Limits.Bytes is for all.
	Moved int64
}

// Session is the open door of one step. Its methods are safe for concurrent use.
type Session struct {
	proxy *Proxy
	grant Grant
	log   *slog.Logger
	// ctx ends with the session.
	ctx  context.Context
	end  context.CancelCauseFunc
	open atomic.Int64
	// moved is the job's so far.
	moved atomic.Int64
	tally tally
	// patterns keep the secrets' values out of responses.
	patterns *secret.Patterns

	mu    sync.Mutex
	ended bool
	conns sync.WaitGroup
}

// errEnded is what cuts the connections of a step that is over.
var errEnded = errors.New("the step has ended")

// Open starts a session. It lasts until Close or the end of ctx.
func (p *Proxy) Open(ctx context.Context, g Grant) *Session {
	s := &Session{proxy: p, grant: g, log: p.cfg.Log.With("job", g.Job, "step", g.Step)}
	if len(g.Secrets) > 0 {
		s.patterns = g.Secrets.Patterns()
	}
	s.moved.Store(max(0, g.Moved))
	s.ctx, s.end = context.WithCancelCause(ctx)
	return s
}

// Close cuts what is open and returns what happened.
func (s *Session) Close() job.Egress {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end(errEnded)
	s.conns.Wait()
	if s.grant.Authority != nil {
		s.grant.Authority.Forget()
	}
	s.grant.Secrets, s.patterns = nil, nil // nobody reads them any more
	return s.Tally()
}

// Tally is what has happened so far.
func (s *Session) Tally() job.Egress { return s.tally.snapshot() }

// enter notes one more connection, unless the session has ended.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.conns.Add(1)
	}
	return !s.ended
}

// Serve takes one connection to its end and closes it.
func (s *Session) Serve(conn Conn) {
	defer conn.Close()
	if !s.enter() {
		return
	}
	defer s.conns.Done()
	c := newClient(s, conn)
	defer c.finish()
	limits := s.proxy.cfg.Limits
	if s.open.Add(1) > int64(limits.Conns) {
		s.open.Add(-1) // what is refused takes nobody's place
		c.refuse(ReasonConns, fmt.Errorf("more than %d connections at once", limits.Conns))
		return
	}
	defer s.open.Add(-1)
	if s.moved.Load() > limits.Bytes {
		c.refuse(ReasonBytes, errBytes)
		return
	}
	c.serve()
}

// decide finds the rule that allows a request, on both lists.
func (s *Session) decide(q policy.Request) (*policy.Rule, policy.Reason) {
	return policy.Both{A: s.proxy.cfg.Operator, B: s.grant.Policy}.Decide(q)
}
