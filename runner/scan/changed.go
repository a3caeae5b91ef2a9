package scan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Lines are ranges of a file's lines, first and last, in order. All stands for the
// whole file.
type Lines struct {
	All    bool
	ranges [][2]int
	// differs: something was changed, if only taken away.
	differs bool
}

// maxDiffed bounds files that are compared line by line, in bytes; of larger ones
// every line counts as changed.
const maxDiffed = 4 << 20

// Changed lists the lines of now that aren't those of before. The ends of lines may
// differ: git may have converted them.
func Changed(before, now []byte) Lines {
	if max(len(before), len(now)) > maxDiffed || bytes.IndexByte(now, 0) >= 0 {
		return Lines{All: !bytes.Equal(before, now)}
	}
	old, text := unixLines(before), unixLines(now)
	l := Lines{differs: old != text}
	delta := 0 // lines that now has more, up to here
	for _, e := range udiff.Lines(old, text) {
		start := strings.Count(old[:e.Start], "\n") + delta
		added, gone := lineCount(e.New), lineCount(old[e.Start:e.End])
		if added > 0 {
			l.ranges = append(l.ranges, [2]int{start + 1, start + added})
		}
		delta += added - gone
	}
	return l
}

func unixLines(text []byte) string {
	s := strings.ReplaceAll(string(text), "\r\n", "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}

func lineCount(s string) int { return strings.Count(s, "\n") }

// Touch says whether one of the lines from first to last is among them.
func (l Lines) Touch(first, last int) bool {
	return l.All || slices.ContainsFunc(l.ranges, func(r [2]int) bool { return first <= r[1] && r[0] <= last })
}

// KeepChanged leaves only findings on changed lines; changed is asked once for each
// file.
func (r *Report) KeepChanged(changed func(path string) (Lines, error)) error {
	known := map[string]Lines{}
	for _, f := range r.Findings {
		if _, ok := known[f.Path]; ok {
			continue
		}
		lines, err := changed(f.Path)
		if err != nil {
			return err
		}
		known[f.Path] = lines
	}
	r.keep(func(f Finding) bool {
		l := known[f.Path]
		return l.Touch(f.Line, f.EndLine) || f.unsure && l.differs
	}, &r.Unchanged)
	return nil
}
