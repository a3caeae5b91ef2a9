package runsc

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize lets the agent's stream run ahead of a busy host: the most an
// unprivileged process may ask for.
const pipeSize = 1 << 20

// conn is the host's side of the agent's stream.
type conn struct{ r, w *os.File }

func (c *conn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c *conn) Close() error                { return errors.Join(c.w.Close(), c.r.Close()) }

// pipes makes the sandbox's stdin, stdout and stderr. They are pipes because
// runsc overwrites a regular file from its beginning.
func (s *box) pipes() error {
	var ours [3]*os.File
	for i := range s.ends {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if i == 0 {
			s.ends[i], ours[i] = r, w
		} else {
			s.ends[i], ours[i] = w, r
		}
		if i < 2 {
			enlarge(w)
		}
		switch i {
		case 1:
			s.conn = &conn{r: ours[1], w: ours[0]}
		case 2:
			s.stderr = ours[2]
		}
	}
	return nil
}

// enlarge is only for speed. File.Fd would make the pipe blocking, and a write to
// an agent that doesn't read could then not be ended by Close.
func enlarge(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}

func (s *box) closeConn() {
	for _, f := range s.ends {
		if f != nil {
			_ = f.Close()
		}
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.stderr != nil {
		_ = s.stderr.Close()
	}
}

// collectLog keeps the end of what the runtime says, until it closes stderr.
func (s *box) collectLog(done chan<- struct{}) {
	_, _ = io.Copy(&s.log, s.stderr)
	close(done)
}
