package commands

import (
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/quavon/quavon/installer"
	"github.com/quavon/quavon/installer/phase"
)

// installView shows an installation on stderr: one line for each change; on a terminal
// also what is going on, below them.
type installView struct {
	out      io.Writer
	color    bool
	terminal bool
	width    int
	name     string
	// dir is the installation's: paths in it are shown without it.
	dir string
	// drawn is how many lines below the last kept one are to be drawn anew.
	drawn int
}

var _ installer.View = (*installView)(nil)

func newInstallView(p *program, dir string) *installView {
	_, cols := p.IO.Size()
	terminal := p.IO.ErrIsTerminal() && p.env("TERM") != "dumb"
	return &installView{out: p.IO.ErrOut, color: p.IO.Color(), terminal: terminal, width: int(cols), dir: dir}
}

func (v *installView) style(s string, c string) string {
	if !v.color {
		return s
	}
	return lipgloss.NewStyle().Foreground(lipgloss.Color(c)).Render(s)
}

// Colours of the terminal's own palette.
const (
	green, yellow, red, grey = "2", "3", "1", "8"
)

// Begin implements installer.View.
func (v *installView) Begin(name string) {
	v.name = name
	v.Status("")
}

// Line implements phase.Reporter.
func (v *installView) Line(text string) {
	v.close()
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), v.dir+"/", "")
	for line := range strings.Lines(printable(text)) {
		name := v.name
		for part := range strings.Lines(v.fit(strings.TrimRight(line, "\n"))) {
			_, _ = fmt.Fprintf(v.out, "  %-9s  %s\n", name, strings.TrimRight(part, "\n"))
			name = ""
		}
	}
}

// margin is in front of a kept line's text, least the width of that from which it is wrapped.
const margin, least = 13, 30

// fit wraps a line between words, for a terminal would wrap it anywhere.
func (v *installView) fit(line string) string {
	if width := v.width - margin - 1; v.terminal && width >= least {
		return lipgloss.Wrap(line, width, "/")
	}
	return line
}

// Status implements phase.Reporter.
func (v *installView) Status(lines ...string) {
	if !v.terminal {
		return
	}
	v.close()
	for _, line := range lines {
		text := fmt.Sprintf("… %-9s  %s", v.name, strings.ReplaceAll(printable(line), "\n", " "))
		text = lipgloss.NewStyle().MaxWidth(max(v.width-1, 20)).Render(text)
		_, _ = fmt.Fprintln(v.out, v.style(text, grey))
		v.drawn++
	}
}

// close removes what is going on.
func (v *installView) close() {
	for ; v.drawn > 0; v.drawn-- {
		_, _ = io.WriteString(v.out, "\x1b[1A\x1b[2K")
	}
}

// Changed implements installer.View.
func (v *installView) Changed(c phase.Change) { v.Line(changeLine(c)) }

func changeLine(c phase.Change) string {
	return fmt.Sprintf("%-6s  %s: %s", c.Action, c.Target, c.Summary)
}

// End implements installer.View.
func (v *installView) End(name string, o installer.Outcome, took time.Duration) {
	v.close()
	color := map[installer.Outcome]string{installer.Changed: green, installer.Unchanged: grey, installer.Failed: red}[o]
	word := v.style(string(o), color)
	_, _ = fmt.Fprintf(v.out, "%-11s  %s in %.1f s\n", name, word, took.Seconds())
}

// plan shows a plan with its diffs.
func (v *installView) plan(w io.Writer, plan []installer.Planned) {
	var b strings.Builder
	n := len(installer.Changes(plan))
	for _, p := range plan {
		if len(p.Changes) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s\n", p.Phase)
		for _, c := range p.Changes {
			fmt.Fprintf(&b, "  %s\n", printable(changeLine(c)))
			if c.RiskWhy != "" {
				fmt.Fprintf(&b, "          %s\n", v.style(printable("risk: "+c.RiskWhy+" (--accept-risk="+c.Risk+")"), yellow))
			}
			v.diff(&b, c.Diff)
		}
	}
	if n == 0 {
		b.WriteString("nothing to change\n")
	} else {
		fmt.Fprintf(&b, "%d changes\n", n)
	}
	_, _ = io.WriteString(w, b.String())
}

func (v *installView) diff(b *strings.Builder, diff string) {
	for line := range strings.Lines(diff) {
		line = printable(strings.TrimRight(line, "\r\n"))
		switch {
		case strings.HasPrefix(line, "+"):
			line = v.style(line, green)
		case strings.HasPrefix(line, "-"):
			line = v.style(line, red)
		}
		fmt.Fprintf(b, "          %s\n", line)
	}
}
