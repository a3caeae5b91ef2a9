package secret

import (
	"strings"
	"testing"
)

// readsAs says whether a text begins with what reads as the pattern.
func readsAs(text, pattern string) bool {
	gap := 0
	for at := 0; pattern != "" && at < len(text); {
		c, n := readOne([]byte(text[at:]), true)
		at += n
		if c == nothing && at > n {
			if gap++; gap > maxGap {
				return false
			}
			continue
		}
		if gap = 0; c != int(pattern[0]) {
			return false
		}
		pattern = pattern[1:]
	}
	return pattern == ""
}

// FuzzRead: wherever a stream is cut, the same comes out as of the whole, lengths
// don't change, and nothing is left that reads as the pattern where reading begins.
func FuzzRead(f *testing.F) {
	f.Add("a%62\\u0063d&#101;f\r\ng\x00h", "abcdefgh", uint16(3))
	f.Add("%%61%62&amp&amp;%25a%252 &#x6", "%ab&amp;%", uint16(1))
	f.Add("\\\\u0061bababab\\", "abababab", uint16(5))
	f.Add("aaaaaaa\n\n\n\n\naaaaaaaa", "aaaaaaaa", uint16(9))
	f.Fuzz(func(t *testing.T, text, pattern string, cut uint16) {
		pattern = string(readAll(pattern))
		if len(pattern) < minForm || len(pattern) > 200 || len(text) > 4096 {
			return
		}
		a := newAutomaton([]string{pattern})
		scrub := func(pieces ...string) string {
			m := readMasker{automaton: a}
			var out []byte
			for _, p := range pieces {
				out = m.next(out, []byte(p))
			}
			return string(m.flush(out))
		}
		whole := scrub(text)
		if len(whole) != len(text) {
			t.Fatalf("%q became %q", text, whole)
		}
		i := int(cut) % (len(text) + 1)
		if got := scrub(text[:i], text[i:]); got != whole {
			t.Fatalf("cut at %d: %q, whole %q", i, got, whole)
		}
		if got := scrub(strings.Split(text, "")...); got != whole {
			t.Fatalf("in characters: %q, whole %q", got, whole)
		}
		for at := 0; at < len(text); {
			if readsAs(text[at:], pattern) && whole[at] != mask {
				t.Fatalf("%q became %q, where it is at %d", text, whole, at)
			}
			_, n := readOne([]byte(text[at:]), true)
			at += n
		}
	})
}
