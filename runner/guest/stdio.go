package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
)

// nullFD is /dev/null in the agent, see takeChannel.
const nullFD = 0

// stdio is a command's standard streams: the agent's ends, nil where the command
// has /dev/null, and the descriptors that the command gets.
type stdio struct {
	in       *os.File
	out, err *output
	tty      *os.File
	child    [3]uintptr
	opened   []int // in child, to be closed after the start
}

func openStdio(req *agentpb.Exec) (*stdio, error) {
	s := &stdio{child: [3]uintptr{nullFD, nullFD, nullFD}}
	err := s.open(req)
	if err != nil {
		s.closeChild()
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stdio) open(req *agentpb.Exec) error {
	if req.GetTty() {
		return s.openTTY(req)
	}
	if req.GetStdin() {
		f, err := s.pipe(0, req.GetUid())
		if err != nil {
			return err
		}
		s.in = f
	}
	for _, o := range []struct {
		wanted bool
		fd     int
		to     **output
	}{{req.GetStdout(), 1, &s.out}, {req.GetStderr(), 2, &s.err}} {
		if !o.wanted {
			continue
		}
		f, err := s.pipe(o.fd, req.GetUid())
		if err != nil {
			return err
		}
		*o.to = &output{f: f}
	}
	return nil
}

// pipe makes the pipe of one standard stream and returns the agent's end, which
// doesn't block.
func (s *stdio) pipe(fd int, uid uint32) (*os.File, error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	mine, child := p[0], p[1]
	if fd == 0 {
		mine, child = child, mine
	}
	s.child[fd] = uintptr(child)
	s.opened = append(s.opened, child)
	// The command's own, so that it can open /dev/stdout.
	if err := unix.Fchown(child, int(uid), -1); err != nil {
		return nil, errors.Join(err, syscall.Close(mine))
	}
	if err := syscall.SetNonblock(mine, true); err != nil {
		return nil, errors.Join(err, syscall.Close(mine))
	}
	return os.NewFile(uintptr(mine), "pipe"), nil
}

// openTTY makes a terminal for all three streams.
func (s *stdio) openTTY(req *agentpb.Exec) error {
	master, slave, err := openPTY(req.GetUid(), winsize(req.GetRows(), req.GetCols()))
	if err != nil {
		return err
	}
	s.tty = master
	s.opened = append(s.opened, slave)
	s.child = [3]uintptr{uintptr(slave), uintptr(slave), uintptr(slave)}
	if req.GetStdin() {
		s.in = master
	}
	s.out = &output{f: master}
	return nil
}

// closeChild closes the command's ends in the agent.
func (s *stdio) closeChild() {
	for _, fd := range s.opened {
		_ = syscall.Close(fd) // nothing was written through it
	}
	s.opened = nil
}

// close closes the agent's ends; a pump that is left ends with it.
func (s *stdio) close() {
	if s.in != nil {
		s.in.Close()
	}
	for _, o := range []*output{s.out, s.err} {
		if o != nil {
			o.f.Close()
		}
	}
	if s.tty != nil {
		s.tty.Close()
	}
}

// pump moves the streams' bytes until the outputs end. It leaves stdin's to
// itself: the command decides how much it wants.
func (s *stdio) pump(stream *wire.Stream) {
	if s.in != nil {
		go s.feed(stream.Reader(wire.In))
	}
	var wg sync.WaitGroup
	if s.err != nil {
		wg.Go(func() { s.err.send(stream.Writer(wire.Err)) })
	}
	if s.out != nil {
		s.out.send(stream.Writer(wire.Out))
	}
	wg.Wait()
}

// feed writes the command's stdin. At its end a terminal gets its end-of-file
// character, since it can't be closed.
func (s *stdio) feed(r io.Reader) {
	_, err := io.Copy(struct{ io.Writer }{s.in}, r)
	if s.tty == nil {
		s.in.Close()
	} else if err == nil {
		_, _ = s.tty.Write([]byte{4}) // it may have been closed with the command
	}
}

// expire ends the outputs of a command that has itself ended.
func (s *stdio) expire() {
	for _, o := range []*output{s.out, s.err} {
		if o != nil {
			o.expire()
		}
	}
}

func (s *stdio) resize(size *agentpb.Size) {
	if s.tty != nil {
		_ = control(s.tty, func(fd int) error { // the command will ask for its size anyway
			return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, winsize(size.GetRows(), size.GetCols()))
		})
	}
}
