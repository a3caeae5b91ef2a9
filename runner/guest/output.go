package guest

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/wire"
)

const (
	// fullPipe is what a pipe holds at first, bigPipe what one gets that a
	// command fills.
	fullPipe = 64 << 10
	bigPipe  = 1 << 20
)

// output is the agent's end of a stream that a command writes.
type output struct {
	f    *os.File
	big  bool
	over atomic.Bool // everything was read
	// late is set when the command's time to drain has expired; left is how many of
	// the bytes that were in the pipe then are still to be read.
	late bool
	left int
}

// send moves everything to the host.
func (o *output) send(w *wire.Writer) {
	// A failure is the stream's or the connection's end, and seen elsewhere. The
	// channel's end isn't told: the stream's is about to come.
	_, _ = w.ReadFrom(o)
	w.Release()
	o.over.Store(true)
}

// expire ends the output with what is in the pipe now, even if an orphan keeps
// it open.
func (o *output) expire() {
	if !o.over.Load() {
		_ = o.f.SetReadDeadline(time.Unix(1, 0)) // closed meanwhile: it has ended
	}
}

// Read implements io.Reader.
func (o *output) Read(p []byte) (int, error) {
	if o.late {
		return o.readLeft(p)
	}
	n, err := o.f.Read(p)
	if n >= fullPipe && !o.big {
		o.grow()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		o.late, o.left = true, o.pending()
		return o.readLeft(p)
	case errors.Is(err, syscall.EIO):
		return n, io.EOF // a terminal whose last user has left
	}
	return n, err
}

// pending is how many bytes are in the pipe.
func (o *output) pending() (n int) {
	_ = control(o.f, func(fd int) (err error) { // nothing is as good as unknown
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	return n
}

// readLeft reads what was in the pipe when time was over, and no more: an orphan
// may write for ever.
func (o *output) readLeft(p []byte) (n int, err error) {
	if o.left == 0 {
		return 0, io.EOF
	}
	err = control(o.f, func(fd int) (err error) {
		n, err = syscall.Read(fd, p[:min(len(p), o.left)])
		return err
	})
	if n <= 0 || err != nil {
		o.left = 0
		return 0, io.EOF
	}
	o.left -= n
	return n, nil
}

// grow makes room in the pipe of a command that writes much; without it things
// are only slower.
func (o *output) grow() {
	o.big = true
	_ = control(o.f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, bigPipe)
		return err
	})
}

// control calls f with the descriptor, without making the file block.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(cerr, err)
}
