package daemonjson

import (
	"bytes"
	"encoding/json"
)

// member is one member of an object. key, value and end are positions of bytes: of the
// key's quote, the value's first byte, and behind its last.
type member struct {
	name            string
	key, value, end int
}

// members are those of the object whose brace is at open, in text that is valid JSON.
func members(text []byte, open int) []member {
	var all []member
	for pos := space(text, open+1); text[pos] != '}'; {
		m := member{key: pos}
		colon := space(text, skipString(text, pos))
		_ = json.Unmarshal(text[pos:skipString(text, pos)], &m.name) // a string, as the text is valid
		m.value = space(text, colon+1)
		m.end = skipValue(text, m.value)
		all = append(all, m)
		if pos = space(text, m.end); text[pos] == ',' {
			pos = space(text, pos+1)
		}
	}
	return all
}

// closeOf is the position of the brace that ends the object at open.
func closeOf(text []byte, open int) int { return skipValue(text, open) - 1 }

func space(text []byte, pos int) int {
	for pos < len(text) && bytes.IndexByte([]byte(" \t\r\n"), text[pos]) >= 0 {
		pos++
	}
	return pos
}

func skipString(text []byte, pos int) int {
	for pos++; text[pos] != '"'; pos++ {
		if text[pos] == '\\' {
			pos++
		}
	}
	return pos + 1
}

func skipValue(text []byte, pos int) int {
	if text[pos] == '"' {
		return skipString(text, pos)
	}
	depth := 0
	for pos < len(text) {
		switch c := text[pos]; {
		case c == '"':
			pos = skipString(text, pos)
			continue
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 1:
			depth--
		case (c == '}' || c == ']') && depth == 1:
			return pos + 1
		case depth == 0 && bytes.IndexByte([]byte(",}] \t\r\n"), c) >= 0:
			return pos
		}
		pos++
	}
	return pos
}
