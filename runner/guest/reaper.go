package guest

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// startTime is how long a start may take on a busy machine.
const startTime = 3 * time.Second

// child is a process that the agent has started.
type child struct {
	pid int
	// ended is a pidfd: readable once the process has ended.
	ended *os.File
	// end is nil until the process has been reaped; guarded by reaper.mu.
	end *exit
}

// exit is how a process has ended.
type exit struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// reaper starts processes and waits for all children of the agent: those it has
// started and the orphans that the kernel hands to it. Nothing else in the agent
// may wait for a process. It has no thread of its own that sits in wait4: each
// start and each end would have to wake it.
type reaper struct {
	// forking is held while a process starts. A start keeps one of the agent's
	// processors until the new program runs; two at once would leave it none.
	forking sync.Mutex

	mu    sync.Mutex
	known map[int]*child
	// since is when the start that is under way began, zero without one. Meanwhile
	// the ends of unknown processes are kept: one may be of the process whose pid
	// is about to be known.
	since   time.Time
	unknown map[int]*exit
}

func newReaper() *reaper { return &reaper{known: map[int]*child{}, unknown: map[int]*exit{}} }

// start starts a process, which must be waited for.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	pidfd := -1
	attr.Sys.PidFD = &pidfd
	c, err := r.fork(path, argv, attr)
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(pidfd, true); err != nil {
		// A kernel without pidfds. Nobody will miss the process.
		r.signal(c, syscall.SIGKILL)
		return nil, os.NewSyscallError("pidfd", err)
	}
	c.ended = os.NewFile(uintptr(pidfd), "pidfd")
	return c, nil
}

func (r *reaper) fork(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	r.forking.Lock()
	defer r.forking.Unlock()
	r.mu.Lock()
	r.since = time.Now()
	r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Time{}
	early := r.unknown
	r.unknown = map[int]*exit{}
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, end: early[pid]}
	if c.end == nil {
		r.known[pid] = c
	}
	return c, nil
}

// unstick kills the process whose start takes too long. Between taking the job's
// uid and becoming its program, the job's other processes can stop it, and then
// the start would never end.
func (r *reaper) unstick() {
	r.mu.Lock()
	stuck := !r.since.IsZero() && time.Since(r.since) > startTime
	r.mu.Unlock()
	if !stuck {
		return
	}
	self := os.Getpid()
	all := processes()
	name := ""
	for _, p := range all {
		if p.pid == self {
			name = p.name
		}
	}
	for _, p := range all {
		// It still has the agent's name. A process of the job that took this name
		// too gets what it asked for.
		if p.parent == self && p.name == name && !r.isKnown(p.pid) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have got through
		}
	}
}

func (r *reaper) isKnown(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[pid] != nil
}

// wait returns once the process has ended and was reaped.
func (r *reaper) wait(c *child) (*exit, error) {
	raw, err := c.ended.SyscallConn()
	if err != nil {
		return nil, err
	}
	var end *exit
	err = raw.Read(func(uintptr) bool {
		r.sweep()
		end = r.endOf(c)
		return end != nil
	})
	return end, errors.Join(err, c.ended.Close())
}

// endOf returns how the process has ended, nil when it hasn't been reaped.
func (r *reaper) endOf(c *child) *exit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.end
}

// signal signals the process and its group, unless it has been reaped: the number
// could be another's by now.
func (r *reaper) signal(c *child, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.end == nil {
		_ = syscall.Kill(-c.pid, sig) // it may be a zombie
	}
}

// sweep reaps all children that have ended. It reports whether none is left at
// all: then no process of the job is, for every orphan becomes a child of the
// agent before its parent can be waited for.
func (r *reaper) sweep() (none bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		e := new(exit)
		pid, err := syscall.Wait4(-1, &e.status, syscall.WNOHANG|syscall.WALL, &e.usage)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			return errors.Is(err, syscall.ECHILD)
		}
		if c := r.known[pid]; c != nil {
			c.end = e
			delete(r.known, pid)
		} else if !r.since.IsZero() {
			r.unknown[pid] = e
		}
	}
}
