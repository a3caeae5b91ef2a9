package iostreams

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/commands/iostreams/iostreamstest"
)

func TestColor(t *testing.T) {
	t.Parallel()
	_, tty := iostreamstest.Terminal(t)
	for _, c := range []struct {
		name          string
		errOut        *os.File
		noColor, term string
		want          bool
	}{
		{"terminal", tty, "", "xterm", true},
		{"terminal without TERM", tty, "", "", true},
		{"NO_COLOR", tty, "1", "xterm", false},
		{"TERM=dumb", tty, "", "dumb", false},
		{"no terminal", nil, "", "xterm", false},
	} {
		s := &Streams{errOut: c.errOut, env: func(k string) string {
			return map[string]string{"NO_COLOR": c.noColor, "TERM": c.term}[k]
		}}
		if got := s.Color(); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestSizeAndRaw(t *testing.T) {
	t.Parallel()
	_, tty := iostreamstest.Terminal(t)
	s := &Streams{in: tty, out: nil}
	if rows, cols := s.Size(); rows != 24 || cols != 80 {
		t.Errorf("size of an unset terminal: %d × %d", rows, cols)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 5, Col: 9}); err != nil {
		t.Fatal(err)
	}
	if rows, cols := s.Size(); rows != 5 || cols != 9 {
		t.Errorf("size: %d × %d", rows, cols)
	}
	echo := func() bool {
		a, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return a.Lflag&unix.ECHO != 0
	}
	restore, err := s.Raw()
	if err != nil || echo() {
		t.Fatalf("not raw: %v", err)
	}
	restore()
	if !echo() {
		t.Error("not restored")
	}
}
