package tail

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTailKeepsTheEnd(t *testing.T) {
	var w Buffer
	long := strings.Repeat("x", Size) + "end"
	for _, s := range []string{"begin\n", "a", long, "more", strings.Repeat("y", 10)} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	if got := w.String(); !strings.HasSuffix(got, "endmore"+strings.Repeat("y", 10)) || !strings.HasPrefix(got, "[earlier output cut] x") ||
		len(got) != Size+len("[earlier output cut] ") {
		t.Errorf("kept %d bytes: %.40q … %q", len(got), got, got[len(got)-30:])
	}
}

// What a sandbox says can't move a terminal, and is bounded.
func FuzzTail(f *testing.F) {
	f.Add([]byte("plain\n"), []byte("\x1b[2Jevil\r\x07"))
	f.Add([]byte("\xff\xfe\u202e"), []byte("\u00e9\t"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var w Buffer
		for _, p := range [][]byte{a, b} {
			if n, err := w.Write(p); n != len(p) || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		s := w.String()
		if len(s) > 6*Size+100 || !utf8.ValidString(s) {
			t.Errorf("%d bytes, or not UTF-8", len(s))
		}
		for _, r := range s {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Errorf("%q is let through", r)
			}
		}
	})
}
