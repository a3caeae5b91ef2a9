package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// Patterns are the texts that a response must not bring: values, and forms of them
// that servers commonly make.
type Patterns struct {
	// raw are found as they are, read in what a lenient reader makes of the bytes.
	raw, read *automaton
}

// Patterns makes what removes the set's values.
func (s Set) Patterns() *Patterns {
	var raw, read []string
	for _, b := range s {
		value := b.Value.Reveal()
		raw = append(raw, forms(value)...)
		read = append(read, readForms(value)...)
	}
	return &Patterns{newAutomaton(raw), newAutomaton(read)}
}

// minForm is the shortest text that is looked for.
const minForm = 6

// forms are the value and what others may have made of it.
func forms(value string) []string {
	list := []string{value, url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value)}
	list = append(list, lowerHex(list[1]), lowerHex(list[2]))
	if quoted, err := json.Marshal(value); err == nil {
		inner := string(quoted[1 : len(quoted)-1])
		list = append(list, inner, strings.ReplaceAll(inner, "/", `\/`))
	}
	return distinct(append(list, base64Forms(value)...))
}

// readForms are what a reader sees of the value, of its base64 and of its digits.
func readForms(value string) []string {
	list := append(base64Forms(value), value, hex.EncodeToString([]byte(value)))
	for i, text := range list {
		list[i] = string(readAll(text))
	}
	return distinct(list)
}

func distinct(list []string) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < minForm })
}

// base64Forms are the value behind any number of other bytes, in both alphabets.
func base64Forms(value string) (list []string) {
	for shift := range 3 {
		core := base64Core(value, shift)
		list = append(list, core, strings.NewReplacer("+", "-", "/", "_").Replace(core))
	}
	return list
}

// base64Core is what base64 has of the value behind shift other bytes: the characters
// that depend on it alone.
func base64Core(value string, shift int) string {
	text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), value...))
	begin := (shift*8 + 5) / 6
	return text[begin : (shift+len(value))*8/6]
}

// lowerHex writes percent escapes with small letters.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}
