// Package bounded reads whole files and streams that must not be larger than
// their reader allows: what is longer is an error, not cut. Nor does it wait for what
// never comes: under the name of a file may stand a pipe that nobody writes to.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ReadAll reads r to its end, which must come within limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return data, err
}

// patience is how long a pipe may have no writer: a shell starts both sides at once.
const patience = 3 * time.Second

// ReadFile reads the file at path, which must have at most limit bytes. It may be a
// pipe, as a shell's <(command) is: a writer may take its time, but there must be one.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFile(f, limit, patience)
}

func readFile(f *os.File, limit int64, patience time.Duration) ([]byte, error) {
	silent, err := isSilent(f, patience)
	if err != nil {
		return nil, err
	}
	data, err := ReadAll(f, limit)
	if err == nil && silent && len(data) == 0 {
		err = errors.New("nobody writes to this pipe")
	}
	if known := (*fs.PathError)(nil); err != nil && !errors.As(err, &known) {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// isSilent says whether f is a pipe into which nothing comes for a while. Reading it then
// waits for its writer, and ends at once when it has none.
func isSilent(f *os.File, patience time.Duration) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return false, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var n int
	var pollErr error
	end := time.Now().Add(patience)
	err = raw.Control(func(fd uintptr) {
		for {
			left := max(0, time.Until(end))
			n, pollErr = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
			if !errors.Is(pollErr, unix.EINTR) {
				return
			}
		}
	})
	return n == 0, errors.Join(err, pollErr)
}

// open doesn't wait for the other end of a pipe.
func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) }
