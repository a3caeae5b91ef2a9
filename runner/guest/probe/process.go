package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self is this very program, also for who may not look into its directory.
const self = "/proc/self/exe"

// waitDelay is how long the output of a process may stay open after its end.
const waitDelay = time.Second

// command makes a process of this program that is given the same input.
func command(ctx context.Context, input Input, args ...string) (*exec.Cmd, error) {
	doc, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{SubCommand}, args...)...)
	cmd.Env = []string{"GOMAXPROCS=2"}
	cmd.Stdin = bytes.NewReader(append(doc, '\n'))
	cmd.WaitDelay = waitDelay
	return cmd, nil
}

// process runs a probe as a process of its own and passes its results on.
func (w *writer) process(input Input, p *Probe) {
	limit := p.Timeout
	if limit == 0 {
		limit = probeTime
	}
	//nolint:forbidigo // the root of this program
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the probe's time is over"))
	defer cancel()
	cmd, err := command(ctx, input, p.ID)
	if err == nil {
		if p.Held && w.held != nil {
			cmd.ExtraFiles = []*os.File{w.held}
		}
		var out io.ReadCloser
		if out, err = cmd.StdoutPipe(); err == nil {
			if err = cmd.Start(); err == nil {
				w.pass(p.ID, out)
				err = cmd.Wait()
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		w.result(p.ID, "process", ErrnoTimeout, "")
	case err != nil:
		w.result(p.ID, "process", ErrnoDied, err.Error())
	}
}

// heldFile is the descriptor that a held probe has of the program's own stdin.
const heldFile = 3

// letGo says whether the host has closed stdin, as it does when it has seen enough.
func (c *Context) letGo() bool {
	p := []unix.PollFd{{Fd: heldFile, Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&(unix.POLLIN|unix.POLLHUP|unix.POLLERR) != 0
}

// pass passes a probe's results on, and nothing else.
func (w *writer) pass(id string, from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, MaxLine)
	for lines.Scan() {
		var l Line
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Kind == KindResult && l.Probe == id && l.Nonce == w.nonce {
			w.line(l)
		}
	}
}

// Child runs Probe.Sub in a process of its own, which attr may put elsewhere: what
// may hang, kill its process or change it for good. Its error is the child's, with
// the number; one of the start has the answer "start".
func (c *Context) Child(attr *syscall.SysProcAttr, args ...string) (answer string, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), attemptTime, context.DeadlineExceeded) //nolint:forbidigo // as above
	defer cancel()
	cmd, err := command(ctx, c.Input, append([]string{c.probe.ID}, args...)...)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.SysProcAttr = &limited{&out}, attr
	if err := cmd.Start(); err != nil {
		errno, _ := ErrnoName(err)
		return "start", &Remote{Errno: errno, Answer: "start"}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return "", context.DeadlineExceeded
	}
	var l Line
	if jerr := json.Unmarshal(out.Bytes(), &l); jerr != nil || l.Nonce != c.Nonce {
		text := "it said nothing"
		if err != nil {
			text = err.Error()
		}
		return "", &Remote{Errno: ErrnoDied, Answer: text}
	}
	if l.Errno != "" {
		return l.Answer, &Remote{Errno: l.Errno, Answer: l.Answer}
	}
	return l.Answer, nil
}

// child is the other side of Child.
func (c *Context) child(args []string) error {
	if c.probe.Sub == nil {
		return errors.New("the probe has no parts")
	}
	answer, err := c.probe.Sub(c, args)
	errno, text := ErrnoName(err)
	if answer == "" {
		answer = text
	}
	c.out.result(c.probe.ID, args[0], errno, answer)
	return c.out.err
}

// limited takes a line's worth and lets the rest go.
type limited struct{ b *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(0, MaxLine-l.b.Len()))])
	return len(p), nil
}

// timeLimited is a context of this program's own.
func timeLimited(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), limit, context.DeadlineExceeded) //nolint:forbidigo // the root of this program
}
