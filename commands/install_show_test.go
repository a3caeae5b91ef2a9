package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/commands/iostreams"
	"github.com/quavon/quavon/commands/iostreams/iostreamstest"
	"github.com/quavon/quavon/installer"
	"github.com/quavon/quavon/installer/phase"
)

// TestPlainOutput: without colour, as NO_COLOR has it, the screen is told where to write
// and nothing else; without a terminal not even that. What a container said can't either.
func TestPlainOutput(t *testing.T) {
	t.Parallel()
	const said = "valkey: \x1b[31mred\x1b[0m\x07 \u202eright"
	run := func(color, terminal bool) string {
		var b bytes.Buffer
		v := &installView{out: &b, color: color, terminal: terminal, width: 60, dir: "/srv"}
		c := phase.Change{
			Action: phase.Edit, Target: "/srv/.env", Summary: said, Diff: "-a\n+b\x1b[31m\n", Risk: phase.RestartDocker, RiskWhy: said,
		}
		v.Begin(phase.Wait)
		v.Status(said, "second")
		v.Line(said + "\n" + strings.Repeat("many words ", 20))
		v.Changed(c)
		for _, o := range []installer.Outcome{installer.Changed, installer.Unchanged, installer.Failed, installer.Undone} {
			v.End(phase.Wait, o, time.Second)
		}
		v.plan(&b, []installer.Planned{{Phase: phase.Env, Changes: []phase.Change{c}}})
		return b.String()
	}
	moves := regexp.MustCompile(`\x1b\[(1A|2K)`)
	for _, c := range []struct {
		name  string
		text  string
		plain bool
	}{
		{"NO_COLOR on a terminal", moves.ReplaceAllString(run(false, true), ""), true},
		{"no terminal", run(false, false), true},
		{"a terminal", moves.ReplaceAllString(run(true, true), ""), false},
	} {
		if has := strings.ContainsAny(c.text, "\x1b\x07\r\u202e"); has == c.plain {
			t.Errorf("%s: %q", c.name, c.text)
		}
		if strings.Contains(c.text, "\x1b[31mred") {
			t.Errorf("%s: what was said counts: %q", c.name, c.text)
		}
	}
}

// TestPlanInAFile: a plan that isn't written to the terminal has no colour for it.
func TestPlanInAFile(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	_, tty := iostreamstest.Terminal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "plan"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plan := []installer.Planned{{Phase: phase.Env, Changes: []phase.Change{{Action: phase.Edit, Target: ".env", Diff: "-a\n+b\n"}}}}
	for _, out := range []*os.File{tty, file} {
		o := &installOptions{program: &program{
			IO: iostreams.System(nil, out, tty), LookupEnv: func(string) (string, bool) { return "", false },
		}, Output: "text"}
		show := newInstallView(o.program, "/srv")
		if !show.color {
			t.Fatal("no colour on a terminal")
		}
		if err := o.showPlan(show, plan); err != nil || show.color != (out == tty) {
			t.Error(err, show.color)
		}
	}
	data, err := os.ReadFile(file.Name())
	if err != nil || strings.Contains(string(data), "\x1b") || !strings.Contains(string(data), "+b\n") {
		t.Errorf("%q %v", data, err)
	}
}
