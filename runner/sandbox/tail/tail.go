// Package tail keeps the end of what a sandbox's runtime says, bounded and safe to
// print: a sandbox can write to it.
package tail

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Size bounds what is kept, in bytes.
const Size = 8 << 10

// Buffer is a writer that keeps the last bytes. It is safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

// Write never fails.
func (t *Buffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := len(t.buf) + n - Size; over > 0 {
		t.cut = true
		drop := min(over, len(t.buf))
		t.buf = append(t.buf[:0], t.buf[drop:]...)
		p = p[max(0, n-Size):]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// String is what was kept, escaped.
func (t *Buffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Escape(string(t.buf))
	if t.cut {
		return "[earlier output cut] " + s
	}
	return s
}

// Escape makes hostile text safe to print: only newlines and tabs remain of
// what moves a terminal.
func Escape(s string) string {
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
