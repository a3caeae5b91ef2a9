// Package iostreams is the commands' view of standard input, output and error:
// injected, so that tests can replace them, and aware of terminals and colour.
package iostreams

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Streams is where a command reads and writes. Out holds results and nothing
// else; everything said to a person goes to ErrOut.
type Streams struct {
	In          io.Reader
	Out, ErrOut io.Writer

	// Files behind the streams, nil when they are none.
	in, out, errOut *os.File
	env             func(string) string
}

// System returns streams on a process's own files.
func System(in, out, errOut *os.File) *Streams {
	return &Streams{In: in, Out: out, ErrOut: errOut, in: in, out: out, errOut: errOut, env: os.Getenv}
}

// InIsTerminal says whether input is typed by a person.
func (s *Streams) InIsTerminal() bool { return isTerminal(s.in) }

// OutIsTerminal says whether results are read by a person.
func (s *Streams) OutIsTerminal() bool { return isTerminal(s.out) }

// ErrIsTerminal says whether messages are read by a person.
func (s *Streams) ErrIsTerminal() bool { return isTerminal(s.errOut) }

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// Color says whether messages on ErrOut may be coloured.
func (s *Streams) Color() bool {
	return s.env("NO_COLOR") == "" && s.env("TERM") != "dumb" && isTerminal(s.errOut)
}

// Size is the terminal's size in rows and columns, 24 × 80 when it has none.
func (s *Streams) Size() (rows, cols uint16) {
	for _, f := range []*os.File{s.out, s.in, s.errOut} {
		if f == nil {
			continue
		}
		if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Row > 0 && w.Col > 0 {
			return w.Row, w.Col
		}
	}
	return 24, 80
}

// Raw hands every key to the job instead of to this side's terminal. The
// returned function undoes it; both do nothing when input is no terminal.
func (s *Streams) Raw() (restore func(), err error) {
	if !s.InIsTerminal() {
		return func() {}, nil
	}
	fd := int(s.in.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, old) }, nil
}

// Foreground says whether input may be read: a background process of a terminal
// would be stopped by the attempt.
func (s *Streams) Foreground() bool {
	if !s.InIsTerminal() {
		return true
	}
	group, err := unix.IoctlGetInt(int(s.in.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
