package scan

import (
	"fmt"
	"net/url"
	"slices"
)

// maxFindings bounds what one scanner may find, maxNotes what it may tell besides.
const (
	maxFindings = 50000
	maxNotes    = 50
)

// sink takes one scanner's findings and checks them.
type sink struct {
	tool     *Tool
	findings []Finding
	// root is where what is scanned was, dir where the scanner ran; repoPath comes
	// before paths. aside is another name of .gitleaksignore.
	root, dir, repoPath, aside string

	outside, many int
	moreErrors    int
	moreNotes     int
}

// add takes a finding whose Path is as the scanner gives it.
func (s *sink) add(f Finding) {
	s.tool.Found++
	rel, ok := inside(f.Path, s.root, s.dir)
	if s.aside != "" && rel == s.aside {
		rel = ".gitleaksignore"
	}
	switch {
	case !ok:
		s.outside++
		return
	case len(s.findings) == maxFindings:
		s.many++
		return
	}
	f.Tool, f.Path, f.breaks = s.tool.Name, s.repoPath+rel, lineBreaks[s.tool.Name]
	f.Rule, f.Message, f.Confidence = clean(f.Rule, maxRule), clean(f.Message, maxMessage), clean(f.Confidence, maxRule)
	f.Line, f.EndLine = bounded(f.Line, 1), bounded(f.EndLine, 0)
	f.Column, f.EndColumn = bounded(f.Column, 0), bounded(f.EndColumn, 0)
	f.settle()
	s.findings = append(s.findings, f)
}

// settle makes what is left of a region one that can be.
func (f *Finding) settle() {
	if !slices.Contains([]Level{LevelError, LevelWarning, LevelNote}, f.Level) {
		f.Level = LevelWarning
	}
	if f.Rule == "" {
		f.Rule = "unknown"
	}
	if f.Message == "" {
		f.Message = f.Rule
	}
	if u, err := url.Parse(f.Help); err != nil || u.Scheme != "https" || u.Host == "" || len(f.Help) > maxPath {
		f.Help = ""
	}
	f.EndLine = max(f.EndLine, f.Line)
	if f.Column == 0 || f.EndLine == f.Line && f.EndColumn < f.Column {
		f.EndColumn = 0
	}
	if f.CWE < 0 || f.CWE > 1<<20 {
		f.CWE = 0
	}
}

// bounded is a number of a line or column, or least when it can't be one.
func bounded(n, least int) int {
	const most = 1<<31 - 1 // of SARIF's readers
	if n < least || n > most {
		return least
	}
	return n
}

// fail notes that the scanner could not run, or not to its end.
func (s *sink) fail(why string) {
	if len(s.tool.Errors) == maxNotes {
		s.moreErrors++
		return
	}
	s.tool.Errors = append(s.tool.Errors, s.where()+clean(why, maxMessage))
}

// where is the directory of the run, for a scanner that has several.
func (s *sink) where() string {
	if rel, ok := inside(s.dir, s.root, s.root); ok {
		return "in " + clean(s.repoPath+rel, maxMessage) + ": "
	}
	return ""
}

// note tells of something that was left out.
func (s *sink) note(what string) {
	if len(s.tool.Notes) == maxNotes {
		s.moreNotes++
		return
	}
	s.tool.Notes = append(s.tool.Notes, s.where()+clean(what, maxMessage))
}

// close tells what was too much.
func (s *sink) close() {
	s.dir = s.root
	if s.outside > 0 {
		s.tool.Notes = append(s.tool.Notes, fmt.Sprintf("%d findings outside of the scanned directory were left out", s.outside))
	}
	if s.many > 0 {
		s.tool.Notes = append(s.tool.Notes, fmt.Sprintf("%d findings more than %d were left out", s.many, maxFindings))
	}
	if s.moreErrors > 0 {
		s.tool.Errors = append(s.tool.Errors, fmt.Sprintf("and %d more", s.moreErrors))
	}
	if s.moreNotes > 0 {
		s.tool.Notes = append(s.tool.Notes, fmt.Sprintf("and %d more", s.moreNotes))
	}
}
