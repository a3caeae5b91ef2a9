// Package report writes what the doctor found: as text for people, as JSON for
// programs, as JUnit for CI and as one HTML file that can be sent away.
package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/quavon/quavon/doctor"
)

// Formats are what Write can write.
var Formats = []string{"text", "json", "junit", "html"}

// Options say how a report is written.
type Options struct {
	// Color and Width are for text; a Width of 0 breaks no lines.
	Color bool
	Width int
	// Version is quavon's.
	Version string
	// Mask hides what nobody else may see; it is applied to every text of the HTML
	// form. nil hides nothing.
	Mask func(string) string
}

// Write writes a report in one of Formats.
func Write(w io.Writer, format string, r *doctor.Report, o Options) error {
	switch format {
	case "text":
		return writeText(w, r, o)
	case "json":
		return writeJSON(w, r, o)
	case "junit":
		return writeJUnit(w, r)
	case "html":
		return writeHTML(w, r, o)
	}
	return fmt.Errorf("%q is no format of a report", format)
}

// FormatOf is the format of a file's name, "" for none.
func FormatOf(path string) string {
	return map[string]string{".txt": "text", ".json": "json", ".xml": "junit", ".html": "html"}[filepath.Ext(path)]
}

// ColorFor says whether text for a terminal is coloured, by the environment that env
// reads: not when NO_COLOR has any value, nor on a terminal that is dumb or unknown.
func ColorFor(terminal bool, env func(string) string) bool {
	return terminal && env("NO_COLOR") == "" && env("TERM") != "dumb" && env("TERM") != ""
}

// states are in the order in which they are counted.
var states = []doctor.State{doctor.Pass, doctor.Warn, doctor.Fail, doctor.Error, doctor.Skip}

// summary is the report in one line.
func summary(r *doctor.Report) string {
	n := r.Counts()
	var parts []string
	for _, s := range states {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	if ignored := ignored(r); ignored > 0 {
		parts = append(parts, fmt.Sprintf("%d ignored", ignored))
	}
	return fmt.Sprintf("%d checks in %.1f s: %s", len(r.Results), r.Took.Seconds(), strings.Join(parts, ", "))
}

func ignored(r *doctor.Report) int {
	n := 0
	for _, x := range r.Results {
		if x.Ignored {
			n++
		}
	}
	return n
}

// verdict says what the exit code means.
func verdict(r *doctor.Report) string {
	switch r.ExitCode() {
	case doctor.ExitOK:
		if r.Proven() {
			return "nothing that was checked is broken"
		}
		return "nothing that was checked is broken; whether sandboxes hold was not tested (QD957)"
	case doctor.ExitFail:
		return "something is broken"
	case doctor.ExitUnknown:
		return "not everything could be found out"
	case doctor.ExitInterrupted:
		return "interrupted"
	}
	return ""
}

// lines are a finding's details and those of its parts.
func lines(f doctor.Finding) []string {
	out := append([]string(nil), f.Details...)
	for _, p := range f.Parts {
		out = append(out, fmt.Sprintf("%s: %s: %s", p.Subject, p.State, p.Message))
		for _, d := range p.Details {
			out = append(out, p.Subject+": "+d)
		}
	}
	return out
}

// oneLine makes text from outside harmless: one line, nothing that moves a cursor.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		if r == '\t' {
			return ' '
		}
		return '\uFFFD'
	}, s)
}

// groups are the results under their headings, in order of first appearance.
func groups(r *doctor.Report) (names []string, by map[string][]doctor.Result) {
	by = map[string][]doctor.Result{}
	for _, x := range r.Results {
		if by[x.Group] == nil {
			names = append(names, x.Group)
		}
		by[x.Group] = append(by[x.Group], x)
	}
	return names, by
}

// broken says whether a reader has something to do.
func broken(s doctor.State) bool { return s == doctor.Fail || s == doctor.Warn || s == doctor.Error }
