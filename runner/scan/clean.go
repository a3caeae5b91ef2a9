package scan

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a finding says, in bytes.
const (
	maxMessage = 2 << 10
	maxRule    = 200
	maxPath    = 4096
)

// clean makes text of a scanner's one harmless line: control characters and those
// that change the direction of writing are spelled out, white space is one space,
// and what is too long is cut.
func clean(s string, most int) string {
	var b strings.Builder
	space := false
	for i, r := range s {
		if b.Len() >= most {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsSpace(r):
			if b.Len() > 0 && !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		space = false
	}
	return strings.TrimSpace(b.String())
}

// inside is a path as a scanner gives it, relative to root; ok is false when it is
// none inside. dir is where the scanner ran.
func inside(p, root, dir string) (rel string, ok bool) {
	if p == "" || len(p) > maxPath || strings.ContainsRune(p, 0) {
		return "", false
	}
	if !path.IsAbs(p) {
		p = path.Join(dir, p)
	}
	rel, ok = strings.CutPrefix(path.Clean(p), root+"/")
	return rel, ok && rel != ""
}
