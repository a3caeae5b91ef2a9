package guest

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killTime bounds the fight against processes that start others faster than they
// are killed.
const killTime = 10 * time.Second

// firstProcess says whether the agent is the first process of its PID namespace,
// and so the only one that kill(-1) spares.
func firstProcess() bool { return os.Getpid() == 1 }

// adopt makes the agent the parent of orphans. The first process is it anyway.
func adopt() error {
	if firstProcess() {
		return nil
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// killAll ends every process but the agent, wherever it has hidden itself. No
// command starts meanwhile.
func (a *agent) killAll(grace time.Duration) error {
	a.kills(+1)
	defer a.kills(-1)
	return end(grace, signalAll, a.reaper.sweep)
}

// kills counts killAlls under way.
func (a *agent) kills(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killing += n; a.killing == 0 {
		a.killed.Broadcast()
	}
}

// killTree ends a command and what it has started. Next to other commands, a
// process that has left both its session and its parents before is not found:
// killAll finds it.
func (a *agent) killTree(c *command, grace time.Duration) error {
	if a.isAlone(c) {
		return a.killAll(grace)
	}
	h := &herd{leader: c.child.pid}
	signal := func(sig syscall.Signal) { signalEach(h.look(), sig) }
	return end(grace, signal, func() bool { return len(h.look()) == 0 })
}

func signalEach(list []process, sig syscall.Signal) {
	for _, p := range list {
		_ = syscall.Kill(p.pid, sig) // it may have ended meanwhile
	}
}

// isAlone says whether c is the only command.
func (a *agent) isAlone(c *command) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, in := a.commands[c]
	return in && len(a.commands) == 1
}

// end sends SIGTERM and, after grace, SIGKILL until gone says that nobody is left.
func end(grace time.Duration, signal func(syscall.Signal), gone func() bool) error {
	if grace > 0 {
		signal(syscall.SIGTERM)
		signal(syscall.SIGCONT) // a stopped process would not see the other
		if within(grace, gone) {
			return nil
		}
	}
	deadline := time.Now().Add(killTime)
	for wait := time.Millisecond; time.Now().Before(deadline); wait = min(2*wait, 50*time.Millisecond) {
		signal(syscall.SIGKILL)
		if within(wait, gone) {
			return nil
		}
	}
	return errors.New("processes are left although they were killed")
}

// within asks until the answer is yes or time is over.
func within(d time.Duration, ask func() bool) bool {
	deadline := time.Now().Add(d)
	for wait := 200 * time.Microsecond; !ask(); wait = min(2*wait, 20*time.Millisecond) {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(wait, left))
	}
	return true
}

// signalAll signals every process of the job.
func signalAll(sig syscall.Signal) {
	if firstProcess() {
		_ = syscall.Kill(-1, sig) // ESRCH: there is none
		return
	}
	signalEach(descendants(), sig)
}
