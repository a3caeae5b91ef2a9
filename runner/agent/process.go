package agent

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/job"
)

// Process is a command in the sandbox.
type Process struct {
	s    *wire.Stream
	done chan struct{}
	exit Exit
	err  error
}

// Exec starts a command and copies its standard streams. It doesn't wait for the
// start: whether that worked is in Exit. When ctx ends, so does the command and
// all it started.
//
// Stdin is read ahead; a Read that is pending when the command ends is left
// behind and ends with its own source.
func (c *Client) Exec(ctx context.Context, cmd Command, stdio Stdio) (*Process, error) {
	if err := checkCommand(cmd); err != nil {
		return nil, err
	}
	s, err := c.conn.Open(&agentpb.Request{Op: &agentpb.Request_Exec{Exec: &agentpb.Exec{
		Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.Dir,
		Uid: cmd.UID, Gid: cmd.GID, Groups: cmd.Groups,
		Tty: cmd.TTY, Rows: uint32(cmd.Rows), Cols: uint32(cmd.Cols),
		TimeoutNs: int64(cmd.Timeout), GraceNs: int64(cmd.Grace),
		Stdin: stdio.Stdin != nil, Stdout: stdio.Stdout != nil, Stderr: stdio.Stderr != nil && !cmd.TTY,
	}}})
	if err != nil {
		return nil, wrap("start a command", err)
	}
	p := &Process{s: s, done: make(chan struct{})}
	if stdio.Stdin != nil {
		go feed(s, stdio.Stdin)
	}
	go p.run(ctx, stdio)
	return p, nil
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(sig syscall.Signal) error {
	return wrap("signal", p.control(&agentpb.Control{Op: &agentpb.Control_Signal{Signal: uint32(sig)}}))
}

// Resize changes the size of the command's terminal.
func (p *Process) Resize(rows, cols uint16) error {
	size := &agentpb.Size{Rows: uint32(rows), Cols: uint32(cols)}
	return wrap("resize", p.control(&agentpb.Control{Op: &agentpb.Control_Resize{Resize: size}}))
}

// control sends a control message, or does nothing when the command has ended.
func (p *Process) control(m *agentpb.Control) error {
	err := p.s.Control(m)
	if errors.Is(err, wire.ErrClosed) {
		return nil
	}
	return err
}

// Wait returns how the command ended, after its output was delivered. The error
// tells that this isn't known, or that a writer of Stdio has failed; Exit is then
// still valid if its command ended.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// feed sends the command's stdin. The command may not want all of it, so a
// failure to send means nothing.
func feed(s *wire.Stream, r io.Reader) {
	w := s.Writer(wire.In)
	_, _ = w.ReadFrom(r)
	_ = w.Close()
}

// run delivers the output and then takes the outcome.
func (p *Process) run(ctx context.Context, stdio Stdio) {
	defer close(p.done)
	stop := context.AfterFunc(ctx, func() { _ = p.s.Close(nil) })
	defer stop()
	var errs [2]error
	var wg sync.WaitGroup
	if stdio.Stderr != nil {
		wg.Go(func() { errs[1] = deliver(stdio.Stderr, p.s.Reader(wire.Err)) })
	}
	if stdio.Stdout != nil {
		errs[0] = deliver(stdio.Stdout, p.s.Reader(wire.Out))
	}
	wg.Wait()
	reply, err := outcome(ctx, p.s)
	if err != nil {
		p.err = wrap("run a command", err)
		return
	}
	p.exit, err = exitOf(reply.GetExit())
	p.err = wrap("run a command", errors.Join(err, errs[0], errs[1]))
}

// deliver copies until the channel ends. When w fails, what follows is dropped:
// the command runs on, and the error is reported at its end.
func deliver(w io.Writer, r io.Reader) error {
	_, err := io.Copy(w, r)
	if err != nil {
		_, _ = io.Copy(io.Discard, r)
	}
	if errors.Is(err, wire.ErrClosed) || errors.Is(err, wire.ErrPeerGone) {
		return nil // the outcome tells
	}
	return err
}

func exitOf(e *agentpb.Exit) (Exit, error) {
	if e == nil || e.GetCode() < 0 || e.GetCode() > 255 || e.GetSignal() < 0 || e.GetSignal() > 64 {
		return Exit{}, errBadReply
	}
	return Exit{
		Code: int(e.GetCode()), Signal: int(e.GetSignal()), TimedOut: e.GetTimedOut(), StartError: clean(e.GetStartError()),
		DiskFull: e.GetDiskFull(),
		Usage: job.Usage{
			User: time.Duration(max(0, e.GetUserNs())), Sys: time.Duration(max(0, e.GetSysNs())), MaxRSS: max(0, e.GetMaxRss()),
		},
	}, nil
}
