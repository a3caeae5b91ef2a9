package guest

import (
	"syscall"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// maxEarly bounds the control messages kept for a command that hasn't started.
const maxEarly = 16

// control handles a message for the command; called by the connection's reader.
func (c *command) control(m *agentpb.Control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.child == nil {
		if len(c.early) < maxEarly {
			c.early = append(c.early, m)
		}
		return
	}
	switch op := m.GetOp().(type) {
	case *agentpb.Control_Signal:
		c.a.reaper.signal(c.child, syscall.Signal(op.Signal))
	case *agentpb.Control_Resize:
		c.io.resize(op.Resize)
	}
}

// cancel ends the command because the host has given it up; called by the
// connection's reader.
func (c *command) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.child == nil {
		c.cancelAt = true
		return
	}
	c.kill()
}

// expire ends the command because its time is over.
func (c *command) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timedOut = c.kill()
}

// kill ends the command and what it started, in the background, unless it has
// ended by itself or is being killed already. c.mu is held.
func (c *command) kill() bool {
	if c.killing != nil || c.a.reaper.endOf(c.child) != nil {
		return false
	}
	killed := make(chan struct{})
	c.killing = killed
	go func() {
		defer close(killed)
		// What survives is seen again by the next killAll, which reports it.
		_ = c.a.killTree(c, time.Duration(c.req.GetGraceNs()))
	}()
	return true
}

// waitKilled waits for a kill that is under way.
func (c *command) waitKilled() {
	c.mu.Lock()
	killing := c.killing
	c.mu.Unlock()
	if killing != nil {
		<-killing
	}
}
