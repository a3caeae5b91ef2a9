package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	"github.com/quavon/quavon/doctor"
)

// narrow is the width below which messages get lines of their own.
const narrow = 72

// colors are the terminal's own, so that they fit its theme.
var colors = map[doctor.State]string{doctor.Pass: "2", doctor.Warn: "3", doctor.Fail: "1", doctor.Error: "5", doctor.Skip: "8"}

// page lays a report out.
type page struct {
	Options
	strings.Builder
	// name is the width of the column of names.
	name int
}

func writeText(w io.Writer, r *doctor.Report, o Options) error {
	p := &page{Options: o}
	for _, x := range r.Results {
		p.name = max(p.name, len(x.Name))
	}
	names, by := groups(r)
	for _, g := range names {
		p.WriteString(p.style(lipgloss.NewStyle().Bold(true), g) + "\n")
		for _, x := range by[g] {
			p.result(x)
		}
		p.WriteString("\n")
	}
	p.WriteString(p.wrap("", summary(r)) + p.wrap("", verdict(r)))
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) result(x doctor.Result) {
	head := fmt.Sprintf("  %s  %s  %-*s", p.state(x.State), x.Code, p.name, x.Name)
	indent := strings.Repeat(" ", len("  error  QD901  ")+p.name+2)
	if p.Width > 0 && p.Width < narrow {
		indent = "    "
		p.WriteString(strings.TrimRight(head, " ") + "\n" + p.wrap(indent, message(x)))
	} else {
		p.WriteString(head + "  " + strings.TrimPrefix(p.wrap(indent, message(x)), indent))
	}
	p.details(indent, x.Details)
	p.parts(indent, x)
	if broken(x.State) {
		p.WriteString(p.wrap(indent+"fix: ", oneLine(x.Fix)))
		p.WriteString(p.wrap(indent, "see `quavon doctor --explain "+x.Code+"`"))
	}
}

// state is a state in its colour, five columns wide.
func (p *page) state(s doctor.State) string {
	return p.style(lipgloss.NewStyle().Bold(broken(s)).Foreground(lipgloss.Color(colors[s])), fmt.Sprintf("%-5s", s))
}

func (p *page) details(indent string, details []string) {
	for _, d := range details {
		p.WriteString(p.wrap(indent+"- ", oneLine(d)))
	}
}

// parts shows each subject below the other: what is wrong with it, and its own fix
// where that isn't the whole's.
func (p *page) parts(indent string, x doctor.Result) {
	subjects := 0
	for _, part := range x.Parts {
		subjects = max(subjects, utf8.RuneCountInString(oneLine(part.Subject)))
	}
	for _, part := range x.Parts {
		head := fmt.Sprintf("%-*s  %s  ", subjects, oneLine(part.Subject), p.state(part.State))
		p.WriteString(p.wrap(indent, head+oneLine(part.Message)))
		p.details(indent+"  ", part.Details)
		if broken(part.State) && part.Fix != "" && part.Fix != x.Fix {
			p.WriteString(p.wrap(indent+"  fix: ", oneLine(part.Fix)))
		}
	}
}

func message(x doctor.Result) string {
	m := oneLine(x.Message)
	if x.Ignored {
		m = "(ignored) " + m
	}
	return m
}

func (p *page) style(s lipgloss.Style, text string) string {
	if !p.Color {
		return text
	}
	return s.Render(text)
}

// wrap breaks a text into lines of the page's width, all indented as far as the
// first, which begins with lead. An empty text is no line.
func (p *page) wrap(lead, text string) string {
	if text == "" {
		return ""
	}
	room := p.Width - len(lead)
	if p.Width <= 0 || room < 16 {
		return lead + text + "\n"
	}
	lines := strings.Split(lipgloss.Wrap(text, room, ""), "\n")
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			lead = strings.Repeat(" ", len(lead))
		}
		b.WriteString(strings.TrimRight(lead+line, " ") + "\n")
	}
	return b.String()
}
