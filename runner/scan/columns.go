package scan

import (
	"sort"
	"unicode/utf8"
)

// unit is what a column counts: characters, or something that has to be converted.
type unit int

const (
	runes unit = iota
	bytesUTF8
	utf16Units
)

// columns converts columns of one line, however long it is and however often it is
// asked: it has marks to begin at.
type columns struct {
	line  []byte
	marks []mark
}

// mark is a place in a line, in every unit.
type mark [utf16Units + 1]int

// markEvery is how far marks are from each other, in bytes.
const markEvery = 1 << 10

func newColumns(line []byte) *columns {
	c := &columns{line: line, marks: []mark{{}}}
	for at := (mark{}); at[bytesUTF8] < len(line); {
		at = at.next(line)
		if at[bytesUTF8]-c.marks[len(c.marks)-1][bytesUTF8] >= markEvery {
			c.marks = append(c.marks, at)
		}
	}
	return c
}

// next is the place one character further.
func (m mark) next(line []byte) mark {
	r, size := utf8.DecodeRune(line[m[bytesUTF8]:])
	m[runes]++
	m[bytesUTF8] += size
	if m[utf16Units]++; r > 0xffff {
		m[utf16Units]++
	}
	return m
}

// convert makes characters of a column. One that isn't in its line is unknown, 0.
func (c *columns) convert(u unit, n int) int {
	behind := sort.Search(len(c.marks), func(i int) bool { return c.marks[i][u] > n-1 })
	at := c.marks[max(0, behind-1)]
	for at[u] < n-1 && at[bytesUTF8] < len(c.line) {
		at = at.next(c.line)
	}
	if at[u] < n-1 {
		return 0
	}
	return at[runes] + 1
}

func column(u unit, line []byte, n int) int {
	switch {
	case n == 0 || u == runes:
		return n
	case line == nil:
		return 0
	}
	return newColumns(line).convert(u, n)
}
