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
	r, w    *os.File
	in, out syscall.RawConn
}

// NewFiles joins the two ends. It enlarges pipes.
func NewFiles(r, w *os.File) (*Files, error) {
	in, err := r.SyscallConn()
	if err != nil {
		return nil, err
	}
	out, err := w.SyscallConn()
	if err != nil {
		return nil, err
	}
	for _, c := range []syscall.RawConn{in, out} {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
	return &Files{r: r, w: w, in: in, out: out}, nil
}

// Read implements io.Reader.
func (f *Files) Read(p []byte) (int, error) { return f.r.Read(p) }

// ReadVector fills p and then q with what there is.
func (f *Files) ReadVector(p, q []byte) (n int, err error) {
	rawErr := f.in.Read(func(fd uintptr) bool {
		for again := true; again; again = errors.Is(err, syscall.EINTR) {
			n, err = unix.Readv(int(fd), [][]byte{p, q})
		}
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case rawErr != nil:
		return 0, rawErr
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (f *Files) Write(p []byte) (int, error) { return f.w.Write(p) }

// TryWrite writes what fits without waiting.
func (f *Files) TryWrite(p []byte) (n int, err error) {
	cerr := f.out.Write(func(fd uintptr) bool {
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
