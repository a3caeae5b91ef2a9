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
	if c.leader == 0 {
		if len(c.early) < maxEarly {
			c.early = append(c.early, m)
		}
		return
	}
	if c.hasExited() {
		return
	}
	switch op := m.GetOp().(type) {
	case *agentpb.Control_Signal:
		_ = syscall.Kill(-c.leader, syscall.Signal(op.Signal)) // it may be gone
	case *agentpb.Control_Resize:
		c.io.resize(op.Resize)
	}
}

// cancel ends the command because the host has given it up; called by the
// connection's reader.
func (c *command) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == 0 {
		c.cancelAt = true
		return
	}
	if !c.hasExited() { // else this is the host's answer to our close
		c.kill()
	}
}

// expire ends the command because its time is over.
func (c *command) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasExited() {
		return
	}
	c.timedOut = true
	c.kill()
}

// kill ends the command and what it started, in the background; c.mu is held.
func (c *command) kill() {
	if c.killing != nil {
		return
	}
	killed := make(chan struct{})
	c.killing = killed
	go func() {
		defer close(killed)
		// What survives is seen again by the next killAll, which reports it.
		_ = c.a.killTree(c, c.leader, time.Duration(c.req.GetGraceNs()))
	}()
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
