package workspace

import (
	"fmt"
	"strings"
)

// quotePath writes a path as git does: as it is, or, with control characters,
// quotes, backslashes or bytes beyond ASCII in it, as a C string literal.
func quotePath(p string) string {
	plain := func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }
	i := 0
	for i < len(p) && plain(p[i]) {
		i++
	}
	if i == len(p) {
		return p
	}
	const special, letter = "\a\b\t\n\v\f\r\"\\", `abtnvfr"\`
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(p) {
		if k := strings.IndexByte(special, c); k >= 0 {
			b.WriteByte('\\')
			b.WriteByte(letter[k])
		} else if plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
