package dotenv

import (
	"strings"
	"unicode"
)

// statement is one assignment, or one name that compose takes from its own
// environment. Positions are of bytes in the text.
type statement struct {
	key string
	// start is where the name or its "export" begins.
	start int
	// value is from begin to end with its quotes; for a name alone both are the end
	// of the name.
	begin, end int
	// quote is the value's, 0 for none.
	quote byte
	// inherited is a name alone.
	inherited bool
}

// scan finds the statements as compose-go's parser does, whose odd corners are
// followed on purpose: what is changed must be what compose reads. text has been
// accepted by that parser.
func scan(text string) []statement {
	var all []statement
	for pos := next(text, 0); pos < len(text); pos = next(text, pos) {
		s := statement{start: pos}
		name := pos
		if rest := text[pos:]; len(rest) > 6 && strings.HasPrefix(rest, "export") && isWhite(rest[6]) {
			name = skip(text, pos+len("export"))
		}
		at := strings.IndexAny(text[name:], "=:\n")
		switch {
		case at < 0:
			// A name without a newline at the very end: compose takes it for the value
			// of nothing.
			s.begin, s.end = name, len(text)
			pos = len(text)
		case text[name+at] == '\n':
			s.key = strings.TrimRightFunc(text[name:name+at], unicode.IsSpace)
			s.begin, s.end, s.inherited = name+len(s.key), name+len(s.key), true
			pos = name + at + 1
		default:
			s.key = strings.TrimRightFunc(text[name:name+at], unicode.IsSpace)
			pos = s.value(text, skip(text, name+at+1))
		}
		all = append(all, s)
	}
	return all
}

// value takes the value that begins at pos, and returns where the rest begins.
func (s *statement) value(text string, pos int) int {
	s.begin = pos
	if pos < len(text) && (text[pos] == '"' || text[pos] == '\'') {
		s.quote = text[pos]
		s.end = closing(text, pos)
		return s.end
	}
	line, _, _ := strings.Cut(text[pos:], "\n")
	value, _, _ := strings.Cut(line, " #")
	s.end = pos + len(strings.TrimRightFunc(value, unicode.IsSpace))
	return min(pos+len(line)+1, len(text))
}

// closing is the position behind the quote that ends what begins at pos. A backslash
// protects the next character, itself included.
func closing(text string, pos int) int {
	escaped := false
	for i := pos + 1; i < len(text); i++ {
		switch {
		case escaped:
			escaped = false
		case text[i] == '\\':
			escaped = true
		case text[i] == text[pos]:
			return i + 1
		}
	}
	return len(text)
}

// next is where the next statement begins: behind white space and comments.
func next(text string, pos int) int {
	for {
		i := strings.IndexFunc(text[pos:], func(r rune) bool { return !unicode.IsSpace(r) })
		if i < 0 {
			return len(text)
		}
		pos += i
		if text[pos] != '#' {
			return pos
		}
		if i = strings.IndexByte(text[pos:], '\n'); i < 0 {
			return len(text)
		}
		pos += i
	}
}

// skip passes white space within a line.
func skip(text string, pos int) int {
	rest := strings.TrimLeftFunc(text[pos:], func(r rune) bool { return r != '\n' && isLineSpace(r) })
	return len(text) - len(rest)
}

func isLineSpace(r rune) bool {
	switch r {
	case '\t', '\v', '\f', '\r', ' ', 0x85, 0xA0:
		return true
	}
	return false
}

// isWhite is what a regular expression's \s matches.
func isWhite(b byte) bool { return strings.IndexByte("\t\n\f\r ", b) >= 0 }
