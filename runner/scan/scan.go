// Package scan makes one report of what several scanners find in one sandbox: it
// says which command to run there, reads what comes out, and writes SARIF 2.1.0.
// All that comes out is hostile: the code that was scanned, and the scanners that
// read it, may have been made to say anything. It is bounded, cleaned and checked,
// and a finding can't lead out of the repository.
package scan

import (
	"cmp"
	"slices"
	"time"
)

// Level is how bad a finding is, in SARIF's words.
type Level string

// Levels.
const (
	LevelError   Level = "error"
	LevelWarning Level = "warning"
	LevelNote    Level = "note"
)

// Finding is one flaw at one place.
type Finding struct {
	Tool    string `json:"tool"`
	Rule    string `json:"rule"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Path is relative to the repository, with slashes.
	Path string `json:"path"`
	// Line and EndLine count from 1. Column and EndColumn count characters from 1,
	// EndColumn the one behind; 0 when it isn't known.
	Line      int `json:"line"`
	EndLine   int `json:"end_line,omitempty"`
	Column    int `json:"column,omitempty"`
	EndColumn int `json:"end_column,omitempty"`
	// Help is a page about the rule, CWE the weakness's number; "" and 0 for none.
	Help       string `json:"help,omitempty"`
	CWE        int    `json:"cwe,omitempty"`
	Confidence string `json:"confidence,omitempty"`
	// Fingerprint stays the same when the line moves.
	Fingerprint string `json:"fingerprint,omitempty"`

	// unit is what the scanner's columns count, breaks what ends its lines.
	unit   unit
	breaks breaks
	// unsure: the line may be another one, so any change of the file counts.
	unsure bool
	// text stands for the line in the fingerprint, "" for the line itself.
	text string
}

// Status is how a scanner fared.
type Status string

// States of a scanner.
const (
	// StatusOK: it has read all that it should.
	StatusOK Status = "ok"
	// StatusError: it could not run, or not to its end; what it found counts.
	StatusError Status = "error"
	// StatusSkipped: nothing there is for it.
	StatusSkipped Status = "skipped"
	// StatusDisabled: the configuration or the caller has left it out.
	StatusDisabled Status = "disabled"
)

// Tool is one scanner's part of a report.
type Tool struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Errors say why it could not run, Notes what it has left out.
	Errors []string `json:"errors,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Found counts all findings, those included that were left out afterwards.
	Found int `json:"found"`
	// Wall is the time it took, CPU what its processes used.
	Wall time.Duration `json:"wall_ns"`
	CPU  time.Duration `json:"cpu_ns"`
}

// Report is what all scanners found.
type Report struct {
	Tools    []Tool    `json:"tools"`
	Findings []Finding `json:"findings"`
	// Ignored counts findings in ignored paths, Unchanged those on lines that
	// weren't changed.
	Ignored   int `json:"ignored,omitempty"`
	Unchanged int `json:"unchanged,omitempty"`
}

// Failed says whether a scanner could not run.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Status == StatusError })
}

// keep leaves only the findings that keep says yes to, and counts the others.
func (r *Report) keep(keep func(Finding) bool, others *int) {
	had := len(r.Findings)
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return !keep(f) })
	*others += had - len(r.Findings)
}

// sort orders findings by place, and drops those that say the same.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.EndLine, b.EndLine),
			cmp.Compare(a.EndColumn, b.EndColumn), cmp.Compare(a.Message, b.Message))
	})
	r.Findings = slices.Compact(r.Findings)
}
