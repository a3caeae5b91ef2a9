package scan

import (
	"bytes"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// breaks is what ends a line for a scanner. git, Go and SARIF know \n and \r\n alone;
// a change could move what Python and JavaScript take for other line breaks so that
// a finding seems to be on a line that it isn't on.
type breaks int

const (
	breaksLF     breaks = iota
	breaksPython        // also \r
	breaksScript        // also \r, U+2028 and U+2029
	allBreaks
)

// lineBreaks says how each scanner counts, if not as git does.
var lineBreaks = map[string]breaks{"bandit": breaksPython, "ruff": breaksPython, "eslint": breaksScript}

var oddBreak = regexp.MustCompile(`\r[^\n]|\r$|\x{2028}|\x{2029}`)

func hasOddBreaks(text []byte) bool {
	for _, mark := range []string{"\r", "\u2028", "\u2029"} { // most files have none, which is found out fast
		if bytes.Contains(text, []byte(mark)) {
			return oddBreak.Match(text)
		}
	}
	return false
}

// starts lists where lines begin.
func starts(text []byte, b breaks) []int {
	list := []int{0}
	for i := 0; i < len(text); i++ {
		size := 0
		switch c := text[i]; {
		case c == '\n':
			size = 1
		case b != breaksLF && c == '\r':
			size = 1
			if bytes.HasPrefix(text[i:], []byte("\r\n")) {
				size = 2
			}
		case b == breaksScript && c == 0xe2 && (bytes.HasPrefix(text[i:], []byte("\u2028")) || bytes.HasPrefix(text[i:], []byte("\u2029"))):
			size = 3
		}
		if size > 0 {
			list = append(list, i+size)
			i += size - 1
		}
	}
	return list
}

// lineAt is the number of the line that has the byte at offset.
func lineAt(starts []int, offset int) int {
	return sort.Search(len(starts), func(i int) bool { return starts[i] > offset })
}

// What makes a scanner count other lines than the file has: Go's directives, and
// encodings in which Python finds other line breaks.
var (
	goLine       = regexp.MustCompile(`(?m)^//line |/\*line `)
	pythonCoding = regexp.MustCompile(`coding[:=][ \t]*([-\w.]+)`)
	knownCodings = []string{"utf-8", "utf8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15", "cp1252"}
)

// misleads says whether a file may tell its scanner other lines than it has.
func misleads(tool string, text []byte) bool {
	switch tool {
	case "gosec":
		return goLine.Match(text)
	case "bandit":
		lines := bytes.SplitN(text, []byte("\n"), 3) // Python looks at the first two
		for _, m := range pythonCoding.FindAllSubmatch(bytes.Join(lines[:min(len(lines), 2)], nil), -1) {
			if !slices.Contains(knownCodings, strings.ReplaceAll(strings.ToLower(string(m[1])), "_", "-")) {
				return true
			}
		}
	}
	return false
}
