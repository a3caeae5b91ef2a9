package scan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// unit is what a column counts: characters, or something that has to be converted.
type unit int

const (
	runes unit = iota
	bytesUTF8
	utf16Units
)

// Source reads a file of what was scanned, by its path in the repository. Files that
// it can't or won't read are nil.
type Source func(path string) []byte

// Place gives each finding a fingerprint made of the text it is about, so that it
// stays the same when the text moves, and columns in characters. Findings must be
// in order.
func (r *Report) Place(read Source) {
	p := placer{read: read, seen: map[string]int{}}
	for i := range r.Findings {
		p.place(&r.Findings[i])
	}
}

// placer knows one file at a time, since findings are sorted by path.
type placer struct {
	read  Source
	path  string
	lines [][]byte
	// seen counts equal texts: the n-th is told from the others.
	seen map[string]int
}

func (p *placer) place(f *Finding) {
	if f.Path != p.path || p.lines == nil {
		p.path, p.lines = f.Path, bytes.Split(p.read(f.Path), []byte("\n"))
	}
	first, last := p.line(f.Line), p.line(f.EndLine)
	f.Column, f.EndColumn = column(f.unit, first, f.Column), column(f.unit, last, f.EndColumn)
	text := f.text
	if text == "" {
		text = "line: " + strings.Join(strings.Fields(string(first)), " ")
	}
	key := strings.Join([]string{f.Tool, f.Rule, f.Path, text}, "\x00")
	p.seen[key]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, p.seen[key]))
	f.Fingerprint = hex.EncodeToString(sum[:16])
}

// line is a line by its number, nil when there is none.
func (p *placer) line(n int) []byte {
	if n < 1 || n > len(p.lines) {
		return nil
	}
	return p.lines[n-1]
}

// column converts a column to characters. One that isn't in its line is unknown.
func column(u unit, line []byte, n int) int {
	switch {
	case n == 0 || u == runes:
		return n
	case line == nil:
		return 0
	case u == bytesUTF8 && n-1 <= len(line):
		return utf8.RuneCount(line[:n-1]) + 1
	case u == utf16Units:
		return fromUTF16(line, n)
	}
	return 0
}

func fromUTF16(line []byte, n int) int {
	at, count := 1, 1
	for _, r := range string(line) {
		if at >= n {
			break
		}
		at++
		if r > 0xffff {
			at++
		}
		count++
	}
	if at < n {
		return 0
	}
	return count
}
