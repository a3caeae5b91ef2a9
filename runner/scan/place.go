package scan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Source reads a file of what was scanned, by its path in the repository. Files that
// it can't or won't read are nil.
type Source func(path string) []byte

// Place gives each finding a fingerprint made of the text it is about, so that it
// stays the same when the text moves, its line as git counts them, and columns in
// characters. Findings must be in order.
func (r *Report) Place(read Source) {
	p := placer{read: read, seen: map[digest]int{}}
	for i := range r.Findings {
		p.place(&r.Findings[i])
	}
	r.sort() // lines may have changed
}

type digest [sha256.Size]byte

// placer knows one file at a time, since findings are sorted by path. Whatever a file
// is like and however many findings it has, each of its bytes is looked at a few times
// only.
type placer struct {
	read Source
	file *text
	path string
	// seen counts equal texts: the n-th is told from the others.
	seen map[digest]int
}

func (p *placer) place(f *Finding) {
	if p.file == nil || f.Path != p.path {
		p.path, p.file = f.Path, newText(p.read(f.Path))
	}
	p.file.locate(f)
	text := sha256.Sum256([]byte(f.text))
	if f.text == "" {
		text = p.file.digest(f.Line)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%x", f.Tool, f.Rule, f.Path, text))
	p.seen[key]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%x\x00%d", key, p.seen[key]))
	f.Fingerprint = hex.EncodeToString(sum[:16])
}

// text is a file that findings are in.
type text struct {
	all []byte
	// starts are where lines begin, as each kind of tool counts them.
	starts [allBreaks][]int
	// odd: not all tools count the same lines.
	odd      bool
	misleads map[string]bool
	columns  map[int]*columns
	digests  map[int]digest
}

func newText(all []byte) *text {
	t := &text{all: all, misleads: map[string]bool{}, columns: map[int]*columns{}, digests: map[int]digest{}}
	t.starts[breaksLF] = starts(all, breaksLF)
	t.odd = hasOddBreaks(all)
	return t
}

// line is a line by its number, and where it begins; ok is false when there is none.
func (t *text) line(b breaks, n int) (line []byte, start int, ok bool) {
	if !t.odd {
		b = breaksLF
	}
	if t.starts[b] == nil {
		t.starts[b] = starts(t.all, b)
	}
	s := t.starts[b]
	if n < 1 || n > len(s) {
		return nil, 0, false
	}
	end := len(t.all)
	if n < len(s) {
		end = s[n]
	}
	return bytes.TrimRight(t.all[s[n-1]:end], "\r\n"), s[n-1], true
}

// locate counts a finding's lines and columns as git and SARIF do. Where a line isn't
// what the scanner took for it the finding's place isn't sure.
func (t *text) locate(f *Finding) {
	if t.all == nil {
		f.Column, f.EndColumn = column(f.unit, nil, f.Column), column(f.unit, nil, f.EndColumn)
		return
	}
	_, from, ok := t.line(f.breaks, f.Line)
	_, to, okEnd := t.line(f.breaks, f.EndLine)
	f.unsure = f.unsure || !ok || t.mislead(f.Tool)
	f.Column, f.EndColumn = t.column(f.unit, f.breaks, f.Line, f.Column), t.column(f.unit, f.breaks, f.EndLine, f.EndColumn)
	if !t.odd || f.breaks == breaksLF || !ok {
		return
	}
	line, end := lineAt(t.starts[breaksLF], from), f.EndLine
	if okEnd {
		end = lineAt(t.starts[breaksLF], to)
	}
	if t.starts[breaksLF][line-1] != from || end != f.EndLine {
		f.Column, f.EndColumn = 0, 0
	}
	f.Line, f.EndLine = line, max(line, end)
}

func (t *text) mislead(tool string) bool {
	yes, ok := t.misleads[tool]
	if !ok {
		yes = misleads(tool, t.all)
		t.misleads[tool] = yes
	}
	return yes
}

func (t *text) column(u unit, b breaks, line, n int) int {
	if n == 0 || u == runes {
		return n
	}
	text, start, ok := t.line(b, line)
	if !ok {
		return 0
	}
	c := t.columns[start]
	if c == nil {
		c = newColumns(text)
		t.columns[start] = c
	}
	return c.convert(u, n)
}

// digest stands for a line without its white space.
func (t *text) digest(n int) digest {
	d, ok := t.digests[n]
	if !ok {
		line, _, _ := t.line(breaksLF, n)
		d = sha256.Sum256([]byte("line: " + strings.Join(strings.Fields(string(line)), " ")))
		t.digests[n] = d
	}
	return d
}
