package workspace

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// around is the number of unchanged lines around a change.
const around = 3

// writeHunks writes the unified hunks that turn before into after.
func writeHunks(w *bufio.Writer, before, after string) {
	a, b := lines(before), lines(after)
	edits := lcs.DiffLines(a, b)
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].Start-edits[n-1].End <= 2*around {
			n++
		}
		writeHunk(w, a, b, edits[:n])
		edits = edits[n:]
	}
}

func writeHunk(w *bufio.Writer, a, b []string, edits []lcs.Diff) {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(first.Start, around)
	tail := min(len(a)-last.End, around)
	fmt.Fprintf(w, "@@ -%s +%s @@\n",
		span(first.Start-lead, last.End+tail), span(first.ReplStart-lead, last.ReplEnd+tail))
	at := first.Start - lead
	for _, e := range edits {
		writeLines(w, ' ', a[at:e.Start])
		writeLines(w, '-', a[e.Start:e.End])
		writeLines(w, '+', b[e.ReplStart:e.ReplEnd])
		at = e.End
	}
	writeLines(w, ' ', a[at:at+tail])
}

// span is "line,count" of the lines from start to end, counted from 0; an empty
// span is named by the line before it.
func span(start, end int) string {
	switch n := end - start; n {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	default:
		return fmt.Sprintf("%d,%d", start+1, n)
	}
}

// writeLines writes errors to w's own, which Flush returns.
func writeLines(w *bufio.Writer, mark byte, lines []string) {
	for _, l := range lines {
		_ = w.WriteByte(mark)
		_, _ = w.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			_, _ = w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lines splits text behind each newline.
func lines(s string) []string {
	list := strings.SplitAfter(s, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}
