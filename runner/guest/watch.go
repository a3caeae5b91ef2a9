package guest

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

const (
	// watchEvery is how often running commands are looked at. A job that frees
	// what it failed to fill within this time goes unseen; it has seen the error
	// itself.
	watchEvery = 50 * time.Millisecond
	// drainTime is how long after a command's end its output may still come: from
	// a child that is just about to end too.
	drainTime = 100 * time.Millisecond
)

// track adds a command to those that run, once nothing is being killed that would
// take it along. One goroutine looks after all of them:
// a timer for each would cost a short command more than anything else here.
func (a *agent) track(c *command) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.killing > 0 {
		a.killed.Wait()
	}
	a.commands[c] = struct{}{}
	if !a.watching {
		a.watching = true
		go a.watch()
	}
}

func (a *agent) untrack(c *command) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.commands, c)
}

// watch looks after the running commands until there are none.
func (a *agent) watch() {
	for {
		time.Sleep(watchEvery)
		a.reaper.sweep()
		a.reaper.unstick()
		a.mu.Lock()
		if len(a.commands) == 0 {
			a.watching = false
			a.mu.Unlock()
			return
		}
		full := diskFull()
		for c := range a.commands {
			c.look(full)
		}
		a.mu.Unlock()
	}
}

// look notes a full disk, and ends the output of a command that has ended some
// time ago.
func (c *command) look(full bool) {
	if full {
		c.diskFull.Store(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.child == nil || c.a.reaper.endOf(c.child) == nil:
	case c.endSeen.IsZero():
		c.endSeen = time.Now()
	case time.Since(c.endSeen) >= drainTime:
		c.io.expire()
	}
}

// diskFull says whether scratch has no room left.
func diskFull() bool {
	var st unix.Statfs_t
	err := unix.Statfs(sandbox.ScratchDir, &st)
	return err == nil && st.Blocks > 0 && st.Bavail == 0
}
