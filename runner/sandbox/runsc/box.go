package runsc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
	"github.com/quavon/quavon/runner/sandbox/tail"
	"github.com/quavon/quavon/runner/state"
)

// box is one sandbox.
type box struct {
	b      *Backend
	slot   *state.Slot
	group  *cgroup.Group // nil when rootless
	limits job.Limits
	cmd    *exec.Cmd
	// ends are the runtime's sides of the pipes, conn and stderr ours.
	ends   [3]*os.File
	conn   *conn
	stderr *os.File
	log    tail.Buffer

	// done is closed after end and last, the final count of limits met, were set;
	// release lets the thread go that the runtime hangs on.
	done    chan struct{}
	end     sandbox.End
	last    cgroup.Events
	release chan struct{}

	// killed says that Stop ended the sandbox.
	killed atomic.Bool

	mu       sync.Mutex // Held by Stop.
	released bool
	stopped  bool
}

var _ sandbox.Sandbox = (*box)(nil)

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

// logWait is how long the log may take after the runtime's end: something of the
// sandbox may still hold its stderr.
const logWait = 200 * time.Millisecond

// wait reaps the runtime and finds out why it ended, while the control group's
// counters are there.
func (s *box) wait() {
	logged := make(chan struct{})
	go s.collectLog(logged)
	err := s.cmd.Wait()
	select {
	case <-logged:
	case <-time.After(logWait):
	}
	s.end.State = s.cmd.ProcessState
	s.end.Log = s.log.String() + s.panicLog()
	s.last = s.events()
	s.end.Reason = s.reason(err)
	close(s.done)
}

// reason tells a limit from the sandbox's own failure. An agent that left by
// itself, or that Stop ended, has none.
func (s *box) reason(exit error) job.Reason {
	switch {
	case s.last.OOMKills > 0:
		return job.ReasonLimitMemory
	case exit == nil || s.killed.Load():
		return job.ReasonNone
	case s.last.TasksRefused > 0:
		// The sandbox kernel panics when it can't make a thread.
		return job.ReasonLimitPids
	default:
		return job.ReasonSandboxUnavailable
	}
}

// events counts the limits met, as far as the kernel tells.
func (s *box) events() cgroup.Events {
	if s.group == nil {
		return cgroup.Events{}
	}
	e, err := s.group.Events()
	if err != nil {
		return cgroup.Events{}
	}
	return e
}

// Hit implements sandbox.Sandbox.
func (s *box) Hit() []job.Reason {
	var e cgroup.Events
	select {
	case <-s.done: // The group may be gone.
		e = s.last
	default:
		e = s.events()
	}
	var hit []job.Reason
	if e.OOMKills > 0 {
		hit = append(hit, job.ReasonLimitMemory)
	}
	if e.TasksRefused > 0 {
		hit = append(hit, job.ReasonLimitPids)
	}
	return hit
}

// panicSize holds the message of a dying sandbox kernel; stacks follow.
const panicSize = 2 << 10

// panicLog is the beginning of what the sandbox kernel said when it died.
func (s *box) panicLog() string {
	f, err := os.Open(s.slot.Path(panicFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, panicSize))
	if err != nil {
		return ""
	}
	return tail.Escape(string(data))
}

// Info implements sandbox.Sandbox. It reads limits and membership back from the
// kernel; what doesn't match what was asked for is an error, and the sandbox is
// ended rather than left without its limits.
func (s *box) Info(ctx context.Context) (job.SandboxInfo, error) {
	info := job.SandboxInfo{
		Backend:  s.b.Name(),
		Runtime:  s.b.version(),
		Platform: "systrap",
		Rootless: s.b.rootless,
		Limits:   job.Limits{Disk: s.limits.Disk, Output: s.limits.Output, Wall: s.limits.Wall},
	}
	if s.group == nil {
		return info, nil
	}
	if err := s.readBack(&info.Limits); err != nil {
		return info, errors.Join(
			fault.Wrap(err, "verify the sandbox's limits", "check what else manages control groups on this host").
				WithCode(string(job.ReasonSandboxUnavailable)),
			s.Stop(ctx))
	}
	return info, nil
}

func (s *box) readBack(got *job.Limits) error {
	have, err := s.group.Limits()
	if err != nil {
		return err
	}
	if want := hostLimits(s.limits); have != want {
		return fmt.Errorf("the control group has the limits %+v instead of %+v", have, want)
	}
	got.Memory, got.CPUs = have.Memory, have.CPUs
	if have.Tasks > 0 {
		got.Pids = (have.Tasks - ownTasks) / tasksPerProcess
	}
	pids, err := descendants(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if len(pids) < 2 {
		return errors.New("the sandbox is not running")
	}
	for _, pid := range pids {
		if err := s.group.Holds(pid); err != nil {
			return err
		}
	}
	return nil
}
