package report

import (
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
)

// Schema is the JSON schema of the JSON form; SchemaVersion rises when a field
// changes its meaning or goes away.
//
//go:embed schema.json
var Schema string

// SchemaVersion is in every document.
const SchemaVersion = 1

type document struct {
	Schema   string         `json:"schema"`
	Version  int            `json:"version"`
	Quavon   string         `json:"quavon"`
	Started  time.Time      `json:"started"`
	Took     float64        `json:"took_s"`
	Strict   bool           `json:"strict"`
	ExitCode int            `json:"exit_code"`
	Proven   bool           `json:"sandboxes_hold"`
	Counts   map[string]int `json:"counts"`
	Checks   []entry        `json:"checks"`
}

type entry struct {
	Code     string   `json:"code"`
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Group    string   `json:"group"`
	Severity string   `json:"severity"`
	State    string   `json:"state"`
	Ignored  bool     `json:"ignored"`
	Message  string   `json:"message"`
	Details  []string `json:"details,omitempty"`
	Parts    []part   `json:"parts,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Docs     string   `json:"docs"`
	Needs    []string `json:"needs,omitempty"`
	Took     float64  `json:"took_s"`
}

// part is what a check found of one of several subjects.
type part struct {
	Subject string   `json:"subject"`
	State   string   `json:"state"`
	Message string   `json:"message"`
	Details []string `json:"details,omitempty"`
	Fix     string   `json:"fix,omitempty"`
}

func partsOf(f doctor.Finding) []part {
	var out []part
	for _, p := range f.Parts {
		x := part{Subject: p.Subject, State: string(p.State), Message: p.Message, Details: p.Details}
		if broken(p.State) {
			x.Fix = p.Fix
		}
		out = append(out, x)
	}
	return out
}

func writeJSON(w io.Writer, r *doctor.Report, o Options) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(documentOf(r, o))
}

func documentOf(r *doctor.Report, o Options) document {
	d := document{
		Schema: "quavon.doctor", Version: SchemaVersion, Quavon: o.Version, Started: r.Started.UTC(), Took: r.Took.Seconds(),
		Strict: r.Strict, ExitCode: int(r.ExitCode()), Proven: r.Proven(), Counts: map[string]int{}, Checks: []entry{},
	}
	for s, n := range r.Counts() {
		d.Counts[string(s)] = n
	}
	for _, x := range r.Results {
		e := entry{
			Code: x.Code, Name: x.Name, Title: x.Title, Group: x.Group, Severity: string(x.Severity), State: string(x.State),
			Ignored: x.Ignored, Message: x.Message, Details: x.Details, Docs: x.Anchor(), Needs: x.Needs, Took: x.Took.Seconds(),
			Parts: partsOf(x.Finding),
		}
		if broken(x.State) {
			e.Fix = x.Fix
		}
		d.Checks = append(d.Checks, e)
	}
	return d
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Name    string       `xml:"name,attr"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Time    string      `xml:"time,attr"`
	Failure *junitWhy   `xml:"failure,omitempty"`
	Error   *junitWhy   `xml:"error,omitempty"`
	Skipped *junitWhy   `xml:"skipped,omitempty"`
	Output  *junitPlain `xml:"system-out,omitempty"`
}

type junitWhy struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitPlain struct {
	Text string `xml:",chardata"`
}

func writeJUnit(w io.Writer, r *doctor.Report) error {
	all := junitSuites{Name: "quavon doctor"}
	names, by := groups(r)
	for _, g := range names {
		s := junitSuite{Name: g, Tests: len(by[g])}
		for _, x := range by[g] {
			s.add(x, r.Strict)
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// add makes a case of a result. JUnit knows no warnings: they are output of a case
// that passed, and failures of a strict one. An ignored result is a skipped one.
func (s *junitSuite) add(x doctor.Result, strict bool) {
	c := junitCase{Class: "quavon.doctor." + x.Code, Name: x.Code + " " + x.Title, Time: fmt.Sprintf("%.3f", x.Took.Seconds())}
	text := strings.Join(lines(x.Finding), "\n")
	if broken(x.State) {
		text = strings.TrimLeft(text+"\nfix: "+x.Fix, "\n")
	}
	why := &junitWhy{Message: oneLine(x.Message), Text: text}
	switch {
	case x.State == doctor.Skip || x.Ignored && broken(x.State):
		s.Skipped++
		c.Skipped = why
	case x.State == doctor.Fail || x.State == doctor.Warn && strict:
		s.Failures++
		c.Failure = why
	case x.State == doctor.Error:
		s.Errors++
		c.Error = why
	default:
		c.Output = &junitPlain{strings.TrimRight(string(x.State)+": "+x.Message+"\n"+text, "\n")}
	}
	s.Cases = append(s.Cases, c)
}
