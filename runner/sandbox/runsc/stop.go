package runsc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
	"github.com/quavon/quavon/runner/state"
)

const (
	// graceful is how long the runtime may take to end after its sandbox.
	graceful = 2 * time.Second
	// patience is how long killed processes may take to die. One that doesn't is
	// stuck in the kernel.
	patience = 10 * time.Second
)

// Stop implements sandbox.Sandbox. When a process can't be killed the slot stays
// taken: the lock is kept, and another Stop tries again.
func (s *box) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	if !s.released {
		s.released = true
		s.kill()
		close(s.release)
		s.closeConn()
	}
	if err := s.clear(ctx); err != nil {
		return err
	}
	s.stopped = true
	return nil
}

// kill ends the sandbox and waits for the runtime. The sandbox goes first: then
// the runtime reaps it, whose zombie would else be init's to reap.
func (s *box) kill() {
	select {
	case <-s.done:
		return
	default:
	}
	s.killed.Store(true)
	runtime := s.cmd.Process.Pid
	pids, _ := descendants(runtime) // The next step finds what this misses.
	for _, pid := range pids {
		if pid != runtime {
			_ = killIf(pid, func() bool { return parentOf(pid) == runtime })
		}
	}
	wait := graceful
	if len(pids) < 2 {
		wait = 0
	}
	select {
	case <-s.done:
		return
	case <-time.After(wait):
	}
	_ = s.cmd.Process.Kill()
	select {
	case <-s.done:
	case <-time.After(s.b.patience):
	}
}

// clear kills what is left of the sandbox and removes its control group and its
// slot.
func (s *box) clear(ctx context.Context) error { return s.b.dispose(ctx, s.slot, s.group) }

// dispose works with a cancelled context. group is nil when rootless.
func (b *Backend) dispose(ctx context.Context, slot *state.Slot, group *cgroup.Group) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), b.patience,
		fmt.Errorf("gave up after %v", b.patience))
	defer cancel()
	err := killAll(ctx, slot, group)
	if err == nil && group != nil {
		err = group.Remove(ctx)
	}
	if err != nil {
		return fault.Wrap(err, "stop sandbox "+slot.ID, "its slot stays taken; see `ps` for what hangs, then start again to reap it").
			WithCode(string(job.ReasonInternal))
	}
	return slot.Remove(ctx)
}

var errAlive = errors.New("processes do not die")

func killAll(ctx context.Context, slot *state.Slot, group *cgroup.Group) error {
	if group != nil {
		return group.Kill(ctx)
	}
	root := slot.Path(runtimeRoot)
	for {
		pids, err := leftovers(root)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := killIf(pid, func() bool { return isOf(pid, root) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %v: %w", errAlive, pids, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// Reap implements sandbox.Backend.
func (b *Backend) Reap(ctx context.Context) ([]string, error) {
	ids, err := b.state.List()
	if err != nil {
		return nil, err
	}
	var reaped []string
	var errs []error
	for _, id := range ids {
		slot, err := b.state.Claim(ctx, Name, id)
		if errors.Is(err, state.ErrInUse) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := b.dispose(ctx, slot, b.groupOf(id)); err != nil {
			errs = append(errs, err, slot.Release())
			continue
		}
		reaped = append(reaped, id)
	}
	if !b.rootless {
		errs = append(errs, b.reapGroups(ctx))
	}
	return reaped, errors.Join(errs...)
}

// abandoned is an age that no starting sandbox's group reaches without a process.
const abandoned = time.Minute

// reapGroups removes what is left of runs whose state directory was deleted. A
// group that can't be removed at once is another's: its processes are in a pid
// namespace that can't be seen from here.
func (b *Backend) reapGroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 100*time.Millisecond, errors.New("the groups are in use"))
	defer cancel()
	ids := b.cgroups.Abandoned(abandoned)
	slots, err := b.state.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.Contains(slots, id) {
			_ = b.cgroups.Group(id).Remove(ctx)
		}
	}
	return nil
}

func (b *Backend) groupOf(id string) *cgroup.Group {
	if b.rootless {
		return nil
	}
	return b.cgroups.Group(id)
}
