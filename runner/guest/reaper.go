package guest

import (
	"errors"
	"sync"
	"syscall"
)

// exitFunc learns how a started process ended.
type exitFunc func(syscall.WaitStatus, *syscall.Rusage)

// reaper starts processes and waits for all children of the agent: those it has
// started and the orphans that the kernel hands to it. Nothing else in the agent
// may wait for a process.
type reaper struct {
	// mu is held while a process starts, so that its end is seen after its pid
	// is known.
	mu    sync.Mutex
	known map[int]exitFunc
	// quiet is closed while there is no child at all: no process of the job is
	// left, for every orphan becomes a child before its parent can be waited for.
	quiet chan struct{}
	woken sync.Cond
}

func newReaper() *reaper {
	r := &reaper{known: map[int]exitFunc{}, quiet: make(chan struct{})}
	r.woken.L = &r.mu
	close(r.quiet)
	go r.run()
	return r
}

// start starts a process. The exit function is called once, after the process has
// been reaped, and must not block.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr, exit exitFunc) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, err
	}
	r.known[pid] = exit
	if r.isQuiet() {
		r.quiet = make(chan struct{})
		r.woken.Signal()
	}
	return pid, nil
}

// none returns a channel that is closed once no process but the agent is left.
func (r *reaper) none() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet
}

func (r *reaper) isQuiet() bool {
	select {
	case <-r.quiet:
		return true
	default:
		return false
	}
}

// run reaps for ever.
func (r *reaper) run() {
	for {
		if err := r.wait(0); errors.Is(err, syscall.ECHILD) {
			r.rest()
		}
	}
}

// wait reaps one child; it returns ECHILD when there is none.
func (r *reaper) wait(options int) error {
	var status syscall.WaitStatus
	usage := new(syscall.Rusage)
	pid, err := syscall.Wait4(-1, &status, options|syscall.WALL, usage)
	if err != nil || pid == 0 {
		return err
	}
	if options&syscall.WNOHANG == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	if exit := r.known[pid]; exit != nil {
		delete(r.known, pid)
		exit(status, usage)
	}
	return nil
}

// rest sleeps until the next start, unless a start has come in between.
func (r *reaper) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.wait(syscall.WNOHANG); !errors.Is(err, syscall.ECHILD) {
		return
	}
	if !r.isQuiet() {
		close(r.quiet)
	}
	for r.isQuiet() {
		r.woken.Wait()
	}
}
