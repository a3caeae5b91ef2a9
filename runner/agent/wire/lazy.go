package wire

import (
	"errors"
	"io"
	"syscall"
)

// ReadFromConn sends what comes from a non-blocking descriptor until it ends. It
// holds no buffer while it waits, so an idle connection costs next to nothing. sent
// is told of each portion that was sent, and may end it by an error.
func (w *Writer) ReadFromConn(raw syscall.RawConn, sent func(n int) error) error {
	defer w.Release()
	for {
		credit, err := w.out.wait(MaxData)
		if err != nil {
			return err
		}
		n, err := w.readRaw(raw, credit)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.end += n
		if err := w.Flush(); err != nil {
			return err
		}
		if err := sent(n); err != nil {
			return err
		}
	}
}

// readRaw reads at most limit bytes behind the gathered ones.
func (w *Writer) readRaw(raw syscall.RawConn, limit int) (n int, err error) {
	rawErr := raw.Read(func(fd uintptr) bool {
		for {
			n, err = syscall.Read(int(fd), w.space()[:limit])
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.EAGAIN) {
			w.Release()
			return false
		}
		return true
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
