package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/state"
)

// box is one sandbox.
type box struct {
	b         *Backend
	engine    *engine
	slot      *state.Slot
	limits    job.Limits
	container string
	asked     *container.HostConfig
	conn      *conn

	// done is closed after end and last, the limits met in the end, were set.
	done chan struct{}
	end  sandbox.End
	last []job.Reason
	// killed says that Stop ended the sandbox.
	killed atomic.Bool
	// unwatch ends the wait for the container.
	unwatch context.CancelCauseFunc

	mu      sync.Mutex // Held by Stop.
	stopped bool
}

var _ sandbox.Sandbox = (*box)(nil)

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	e, err := b.checked(ctx)
	if err != nil {
		return nil, err
	}
	b.warn(c.ID)
	slot, err := b.State.Create(ctx, b.Name(), c.ID)
	if err != nil {
		return nil, unavailable(err)
	}
	s := &box{b: b, engine: e, slot: slot, limits: c.Limits, done: make(chan struct{}), unwatch: func(error) {}}
	if err := s.start(ctx, c); err != nil {
		if s.conn != nil {
			_ = s.conn.Close()
		}
		s.unwatch(err)
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, unavailable(errors.Join(err, b.dispose(ctx, slot)))
	}
	return s, nil
}

// unavailable gives an error without a reason of its own the reason that there is
// no sandbox.
func unavailable(err error) error {
	if fault.Code(err) != "" {
		return err
	}
	hint := fault.Hint(err)
	if hint == "" {
		hint = "see the engine's log, and whether `docker run --runtime=…` works by hand"
	}
	return &fault.Error{What: "start a sandbox", Err: err, Hint: hint, Code: string(job.ReasonSandboxUnavailable)}
}

func (s *box) start(ctx context.Context, c sandbox.Config) error {
	ctx, cancel := s.b.inTime(ctx)
	defer cancel()
	if err := checkMounts(c.Mounts); err != nil {
		return err
	}
	if err := s.create(ctx, c); err != nil {
		return err
	}
	r, err := s.b.api.ContainerAttach(ctx, s.container, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return fmt.Errorf("attach to the container: %w", err)
	}
	s.conn = newConn(r.Conn, r.Reader)
	s.watch(ctx)
	if err := s.b.api.ContainerStart(ctx, s.container, container.StartOptions{}); err != nil {
		return fmt.Errorf("start the container: %w", err)
	}
	if s.b.nested() {
		s.startEngine(ctx, c.MountOwner())
	}
	return nil
}

// watch waits for the container's end, from before its start.
func (s *box) watch(ctx context.Context) {
	ctx, s.unwatch = context.WithCancelCause(context.WithoutCancel(ctx))
	result, failed := s.b.api.ContainerWait(ctx, s.container, container.WaitConditionNextExit)
	go func() {
		exit, known := 0, false
		select {
		case r := <-result:
			exit, known = int(r.StatusCode), r.Error == nil
		case err := <-failed:
			s.conn.note(fmt.Sprintf("the engine no longer tells of the container: %v\n", err))
		}
		s.ended(ctx, exit, known)
	}()
}

// ended finds out why a container ended, while the engine still knows it.
func (s *box) ended(ctx context.Context, exit int, known bool) {
	ctx, cancel := s.b.inTime(context.WithoutCancel(ctx))
	defer cancel()
	if state, err := s.state(ctx); err == nil && state.OOMKilled {
		s.last = append(s.last, job.ReasonLimitMemory)
	}
	if s.panicked(exit) && s.last == nil && !s.killed.Load() {
		s.last = append(s.last, job.ReasonLimitPids)
	}
	switch {
	case len(s.last) > 0:
		s.end.Reason = s.last[0]
	case known && exit == 0 || s.killed.Load():
	default:
		s.end.Reason = job.ReasonSandboxUnavailable
		s.conn.note(fmt.Sprintf("the container ended with exit code %d\n", exit))
	}
	s.conn.drain()
	s.end.Log = s.conn.log.String()
	close(s.done)
}

// sentryPanic is how gVisor's kernel exits when it panics, which it does when it
// can't make a thread. The agent never exits so.
const sentryPanic = 2

// panicked says whether a sandbox ended as one does that has met its process
// limit. The engine counts no refused forks, so this is all there is to see.
func (s *box) panicked(exit int) bool {
	return s.b.gvisor() && s.limits.Pids > 0 && exit == sentryPanic
}

// state is what the engine says of the container now.
func (s *box) state(ctx context.Context) (*container.State, error) {
	r, err := s.b.api.ContainerInspect(ctx, s.container)
	if err != nil {
		return nil, err
	}
	if r.ContainerJSONBase == nil || r.State == nil {
		return nil, errors.New("the engine does not tell the container's state")
	}
	return r.State, nil
}

// Conn implements sandbox.Sandbox.
func (s *box) Conn() io.ReadWriteCloser { return s.conn }

// Done implements sandbox.Sandbox.
func (s *box) Done() <-chan struct{} { return s.done }

// Ended implements sandbox.Sandbox.
func (s *box) Ended() sandbox.End {
	select {
	case <-s.done:
		return s.end
	default:
		return sandbox.End{}
	}
}

// hitWait bounds the question to the engine in Hit, endWait the time until the engine
// says that a container has ended whose stream has: seconds, on a busy host.
const (
	hitWait = 2 * time.Second
	endWait = 10 * time.Second
)

// Hit implements sandbox.Sandbox. While the sandbox runs it takes a sample: with
// runc a job that is refused a process goes on, and nobody counts that. At one below
// the limit the job has more processes than it asked for, since the agent needs
// fewer than are added for it.
func (s *box) Hit() []job.Reason {
	select {
	case <-s.conn.ended: // The container's end is known in a moment.
		select {
		case <-s.done:
		case <-time.After(endWait):
		}
	default:
	}
	select {
	case <-s.done:
		return slices.Clone(s.last)
	default:
	}
	//nolint:forbidigo // the interface passes no context, and what is asked for is bounded
	ctx, cancel := context.WithTimeoutCause(context.Background(), hitWait, errors.New("the engine does not answer"))
	defer cancel()
	var hit []job.Reason
	if state, err := s.state(ctx); err == nil && state.OOMKilled {
		hit = append(hit, job.ReasonLimitMemory)
	}
	if !s.b.gvisor() && s.limits.Pids > 0 {
		if st, err := s.stats(ctx); err == nil && st.PidsStats.Limit > 0 && st.PidsStats.Current+1 >= st.PidsStats.Limit {
			hit = append(hit, job.ReasonLimitPids)
		}
	}
	return hit
}
