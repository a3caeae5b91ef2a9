package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
)

// Exit codes of a command that was not started, as shells have them.
const (
	exitCantRun  = 126
	exitNotFound = 127
)

// command is one process that the host asked for.
type command struct {
	a   *agent
	s   *wire.Stream
	req *agentpb.Exec
	io  *stdio

	exited chan struct{}
	// These are valid once exited is closed.
	status   syscall.WaitStatus
	usage    *syscall.Rusage
	exitTime time.Time

	diskFull atomic.Bool

	mu       sync.Mutex
	leader   int                // pid, 0 before the start
	early    []*agentpb.Control // what came before the start
	cancelAt bool               // the host gave up before the start
	timedOut bool
	killing  chan struct{} // closed when everything was killed, nil without need
}

func newCommand(a *agent, s *wire.Stream, req *agentpb.Exec) *command {
	return &command{a: a, s: s, req: req, exited: make(chan struct{})}
}

// run is the command's life.
func (c *command) run() {
	exit, err := c.exec()
	reply := failure(err)
	reply.Exit = exit
	_ = c.s.Close(reply) // the connection's end is noticed by its reader
	if c.io != nil {
		c.io.close()
	}
}

func (c *command) exec() (*agentpb.Exit, error) {
	if err := c.a.isReady(); err != nil {
		return nil, err
	}
	if err := checkExec(c.req); err != nil {
		return nil, err
	}
	path, err := lookPath(c.req.GetArgv()[0], c.req.GetEnv())
	if err != nil {
		return &agentpb.Exit{Code: exitNotFound, StartError: err.Error()}, nil
	}
	if c.io, err = openStdio(c.req); err != nil {
		return nil, err
	}
	c.a.track(c)
	defer c.a.untrack(c)
	pid, err := c.a.reaper.start(path, c.req.GetArgv(), c.attr(), c.onExit)
	c.io.closeChild()
	if err != nil {
		return c.notStarted(path, err), nil
	}
	if d := time.Duration(c.req.GetTimeoutNs()); d > 0 {
		timer := time.AfterFunc(d, c.expire)
		defer timer.Stop()
	}
	c.started(pid)
	c.io.pump(c.s)
	<-c.exited
	c.waitKilled()
	return c.outcome(), nil
}

func (c *command) attr() *syscall.ProcAttr {
	return &syscall.ProcAttr{
		Dir:   c.req.GetDir(),
		Env:   c.req.GetEnv(),
		Files: c.io.child[:],
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Setctty:    c.req.GetTty(),
			Credential: &syscall.Credential{Uid: c.req.GetUid(), Gid: c.req.GetGid(), Groups: c.req.GetGroups()},
		},
	}
}

// notStarted explains a failed start. The kernel gives one error number for the
// directory and the program, so the agent looks which it was.
func (c *command) notStarted(path string, err error) *agentpb.Exit {
	code, what := int32(exitCantRun), path
	if fi, derr := os.Stat(c.req.GetDir()); derr != nil || !fi.IsDir() {
		what = "working directory " + c.req.GetDir()
	} else if errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	return &agentpb.Exit{Code: code, StartError: fmt.Sprintf("%s: %v", what, err)}
}

// started makes the pid known and catches up with what came before.
func (c *command) started(pid int) {
	c.mu.Lock()
	c.leader = pid
	early, cancelled := c.early, c.cancelAt
	c.early = nil
	c.mu.Unlock()
	for _, m := range early {
		c.control(m)
	}
	if cancelled {
		c.cancel()
	}
}

// onExit is told by the reaper.
func (c *command) onExit(status syscall.WaitStatus, usage *syscall.Rusage) {
	c.status, c.usage = status, usage
	c.exitTime = time.Now()
	close(c.exited)
}

func (c *command) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// outcome tells how the process ended.
func (c *command) outcome() *agentpb.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	exit := &agentpb.Exit{
		Code:     int32(c.status.ExitStatus()),
		TimedOut: c.timedOut,
		DiskFull: c.diskFull.Load() || diskFull(),
		UserNs:   c.usage.Utime.Nano(),
		SysNs:    c.usage.Stime.Nano(),
		MaxRss:   c.usage.Maxrss << 10,
	}
	if c.status.Signaled() {
		exit.Signal = int32(c.status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}
