package probe

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var timing = []Probe{
	{ID: "I1-wall", Timeout: time.Minute, Run: outlive, Sub: beat},
	{ID: "I3-clock", Run: setClock},
	{ID: "I4-orphan", Run: leaveOrphan, Sub: hold},
}

// Beats of a job that doesn't want to end, and their distance.
const (
	beats    = 150
	beatTime = 100 * time.Millisecond
)

// outlive shows a sign of life every now and then, deaf to all signals that can be
// ignored, as does a child that has left its session.
func outlive(c *Context) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGALRM)
	c.Try("child", func() (string, error) { return "", c.leave() })
	for i := range beats {
		c.Say(fmt.Sprintf("beat-%d", i), "")
		time.Sleep(beatTime)
	}
	c.Say(SubAll, "")
}

// leave starts a child in a session of its own that isn't waited for.
func (c *Context) leave() error {
	ctx, cancel := timeLimited(time.Minute)
	cmd, err := command(ctx, c.Input, c.probe.ID, "beat")
	if err != nil {
		cancel()
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	go func() {
		defer cancel()
		_ = cmd.Wait() // nobody asks
	}()
	return nil
}

// beat is the child.
func beat(*Context, []string) (string, error) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	time.Sleep(beats * beatTime)
	return "", nil
}

// SubOrphan says that an orphan holds the job's output open.
const SubOrphan = "orphan"

// leaveOrphan leaves a process behind that has the job's own output, in a session of its
// own, and that nobody waits for.
func leaveOrphan(c *Context) {
	c.Try(SubOrphan, func() (string, error) {
		out, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", os.Getppid()), os.O_WRONLY, 0)
		if err != nil {
			return "", err
		}
		defer func() { _ = out.Close() }()                                     // the orphan has its own
		cmd, err := command(context.Background(), c.Input, c.probe.ID, "hold") //nolint:forbidigo // it is to outlive this process
		if err != nil {
			return "", err
		}
		cmd.Stdout, cmd.SysProcAttr = out, &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		return "", cmd.Process.Release()
	})
}

// hold is the orphan.
func hold(*Context, []string) (string, error) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	time.Sleep(time.Minute)
	return "", nil
}

// setClock moves the clock by nothing, which takes the right to move it.
func setClock(c *Context) {
	const setOffset = 0x0100
	c.TryErr("adjtimex", func() error {
		_, err := unix.Adjtimex(&unix.Timex{Modes: setOffset})
		return err
	})
	c.TryErr("clock-adjtime", func() error {
		_, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &unix.Timex{Modes: setOffset})
		return err
	})
}
