package wire

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeSize is asked for on both pipes; the kernel may refuse, which costs speed
// only.
const pipeSize = 1 << 20

// Files is a byte stream over two pipes or sockets, which are in non-blocking
// mode.
type Files struct {
	r, w *os.File
	raw  syscall.RawConn
}

// NewFiles joins the two ends. It enlarges pipes.
func NewFiles(r, w *os.File) (*Files, error) {
	raw, err := w.SyscallConn()
	if err != nil {
		return nil, err
	}
	for _, f := range []*os.File{r, w} {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
		}
	}
	return &Files{r: r, w: w, raw: raw}, nil
}

// Read implements io.Reader.
func (f *Files) Read(p []byte) (int, error) { return f.r.Read(p) }

// Write implements io.Writer.
func (f *Files) Write(p []byte) (int, error) { return f.w.Write(p) }

// TryWrite writes what fits without waiting.
func (f *Files) TryWrite(p []byte) (n int, err error) {
	cerr := f.raw.Write(func(fd uintptr) bool {
		for len(p) > n {
			var m int
			m, err = syscall.Write(int(fd), p[n:])
			n += max(m, 0)
			switch {
			case err == nil || errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				err = nil
				return true
			default:
				return true
			}
		}
		return true
	})
	return n, errors.Join(cerr, err)
}

// Close closes both ends.
func (f *Files) Close() error { return errors.Join(f.r.Close(), f.w.Close()) }

var _ io.ReadWriteCloser = (*Files)(nil)
