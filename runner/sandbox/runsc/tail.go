package runsc

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// tailSize bounds what is kept of the runtime's stderr, which the sandbox can
// write to.
const tailSize = 8 << 10

// tail is a writer that keeps the last bytes.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := len(t.buf) + n - tailSize; over > 0 {
		t.cut = true
		drop := min(over, len(t.buf))
		t.buf = append(t.buf[:0], t.buf[drop:]...)
		p = p[max(0, n-tailSize):]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := escape(string(t.buf))
	if t.cut {
		return "[earlier output cut] " + s
	}
	return s
}

// escape makes hostile text safe to print: only newlines and tabs remain of
// what moves a terminal.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}
