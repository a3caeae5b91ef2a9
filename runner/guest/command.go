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

	diskFull atomic.Bool

	mu       sync.Mutex
	child    *child             // nil before the start
	early    []*agentpb.Control // what came before the start
	cancelAt bool               // the host gave up before the start
	timedOut bool
	killing  chan struct{} // closed when everything was killed, nil without need

	// endSeen is when the agent first saw that the process had ended; of watch.
	endSeen time.Time
}

func newCommand(a *agent, s *wire.Stream, req *agentpb.Exec) *command {
	return &command{a: a, s: s, req: req}
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
	child, err := c.a.reaper.start(path, c.req.GetArgv(), c.attr())
	c.io.closeChild()
	if err != nil {
		return c.notStarted(path, err), nil
	}
	c.started(child)
	if d := time.Duration(c.req.GetTimeoutNs()); d > 0 {
		timer := time.AfterFunc(d, c.expire)
		defer timer.Stop()
	}
	c.io.pump(c.s)
	end, err := c.a.reaper.wait(child)
	if err != nil {
		return nil, err
	}
	c.waitKilled()
	return c.outcome(end), nil
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

// started makes the process known and catches up with what came before.
func (c *command) started(child *child) {
	c.mu.Lock()
	c.child = child
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

// outcome tells how the process ended.
func (c *command) outcome(end *exit) *agentpb.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	exit := &agentpb.Exit{
		Code:     int32(end.status.ExitStatus()),
		TimedOut: c.timedOut,
		DiskFull: c.diskFull.Load() || diskFull(),
		UserNs:   end.usage.Utime.Nano(),
		SysNs:    end.usage.Stime.Nano(),
		MaxRss:   end.usage.Maxrss << 10,
	}
	if end.status.Signaled() {
		exit.Signal = int32(end.status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}
