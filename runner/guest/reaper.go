package guest

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

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
	mu    sync.Mutex
	known map[int]*child
	// starting counts starts under way. While there are any, the ends of unknown
	// processes are kept: one may be of a process whose pid is about to be known.
	starting int
	unknown  map[int]*exit
}

func newReaper() *reaper { return &reaper{known: map[int]*child{}, unknown: map[int]*exit{}} }

// start starts a process, which must be waited for.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	pidfd := -1
	attr.Sys.PidFD = &pidfd
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	c := &child{pid: pid}
	r.add(c, err == nil)
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

// add ends a start.
func (r *reaper) add(c *child, started bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if started {
		if c.end = r.unknown[c.pid]; c.end == nil {
			r.known[c.pid] = c
		}
	}
	if r.starting--; r.starting == 0 {
		clear(r.unknown)
	}
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
		} else if r.starting > 0 {
			r.unknown[pid] = e
		}
	}
}
