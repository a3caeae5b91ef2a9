package scan

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRecorded reads what the real scanners said of testdata of ours: every kind of
// output, files that can't be parsed, and a module that isn't there.
func TestRecorded(t *testing.T) {
	t.Parallel()
	r, err := Read(recorded(t), Options{Root: "/workspace"}, "sub/")
	if err != nil {
		t.Fatal(err)
	}
	r.Place(func(string) []byte { return nil })
	got := validSARIF(t, r)
	const golden = "testdata/recorded.sarif"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("SARIF differs (-want +got):\n%s", d)
	}
	counts := map[string]int{}
	for _, f := range r.Findings {
		counts[f.Tool]++
	}
	want2 := map[string]int{"ast-grep": 10, "bandit": 7, "eslint": 6, "gitleaks": 1, "gosec": 5, "ruff": 5}
	if d := cmp.Diff(want2, counts); d != "" {
		t.Errorf("findings of each scanner (-want +got):\n%s", d)
	}
	gosec := r.toolNamed("gosec")
	if gosec.Status != StatusError || len(gosec.Errors) != 1 || !strings.HasPrefix(gosec.Errors[0], "in sub/svc: can't load ") {
		t.Errorf("gosec: %+v", gosec)
	}
	if !r.Failed() {
		t.Error("a module that can't be loaded is no failure")
	}
}

func TestOneRunEach(t *testing.T) {
	t.Parallel()
	const leak = `[{"RuleID":"r","Description":"d","StartLine":3,"EndLine":3,"File":"../w/a","Match":"x"}]`
	run := func(fields string) string {
		return `{"runs":[{"tool":"gitleaks","dir":"/w","files":0,"wall":1` + fields + `}],"skipped":["bandit","eslint","gosec","ruff"]}`
	}
	for name, c := range map[string]struct {
		index, out, errOut string
		status             Status
		why                string
		found              int
	}{
		"finds something":      {index: run(`,"exit":0`), out: leak, status: StatusOK, found: 1},
		"finds nothing":        {index: run(`,"exit":0`), out: "[]", status: StatusOK},
		"says nothing":         {index: run(`,"exit":0`), status: StatusError, why: "its output can't be read: it said nothing"},
		"fails, and counts":    {index: run(`,"exit":1`), out: leak, errOut: "no \x1b[31mrules", status: StatusError, why: `it failed with exit code 1: no \u001b[31mrules`, found: 1},
		"takes too long":       {index: run(`,"exit":-9,"timed_out":true`), status: StatusError, why: "it was ended after 1s, its timeout"},
		"is killed":            {index: run(`,"exit":-9`), out: "[", status: StatusError, why: "it was ended by signal 9"},
		"is missing":           {index: run(`,"failed":"no such file"`), status: StatusError, why: "it could not be started: no such file"},
		"says what isn't JSON": {index: run(`,"exit":0`), out: "panic", status: StatusError, why: "its output can't be read: invalid character 'p' looking for beginning of value"},
		"says another type":    {index: run(`,"exit":0`), out: `{"a":1}`, status: StatusError, why: "its output can't be read: it is no list"},
		"goes on":              {index: run(`,"exit":0`), out: leak + "[]", status: StatusError, why: "its output can't be read: more follows behind its end", found: 1},
		"is cut":               {index: run(`,"exit":0`), out: leak[:len(leak)-1], status: StatusError, why: "its output can't be read: ", found: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := []string{"0.out", "0.err"}
			if strings.Contains(c.index, "failed") {
				files = nil
			}
			r := read(t, stream(t, c.index, map[string]string{"0.out": c.out, "0.err": c.errOut}, files...))
			got := r.toolNamed("gitleaks")
			if got.Status != c.status || got.Found != c.found || len(r.Findings) != c.found || !strings.HasPrefix(strings.Join(got.Errors, "; "), c.why) {
				t.Errorf("got %+v and %d findings", got, len(r.Findings))
			}
			if ast := r.toolNamed("ast-grep"); ast.Status != StatusError {
				t.Errorf("a scanner that nobody has run is %+v", ast)
			}
			validSARIF(t, r)
		})
	}
}

func TestHostileFindings(t *testing.T) {
	t.Parallel()
	leak := func(file, text, line string) string {
		return `[{"RuleID":"` + text + `","Description":"` + text + `","StartLine":` + line + `,"File":"` + file + `"}]`
	}
	for name, c := range map[string]struct{ out, path string }{
		"inside":           {leak("a/b", "x", "1"), "a/b"},
		"absolute":         {leak("/w/a", "x", "1"), "a"},
		"by a detour":      {leak("a/../b/./c", "x", "1"), "b/c"},
		"above":            {leak("../a", "x", "1"), ""},
		"far above":        {leak("a/../../../etc/passwd", "x", "1"), ""},
		"elsewhere":        {leak("/etc/passwd", "x", "1"), ""},
		"beside":           {leak("/wide/a", "x", "1"), ""},
		"the root itself":  {leak("/w", "x", "1"), ""},
		"nowhere":          {leak("", "x", "1"), ""},
		"NUL":              {leak(`a\u0000b`, "x", "1"), ""},
		"a line below one": {leak("a", "x", "-5"), "a"},
		"a line too high":  {leak("a", "x", "99999999999"), "a"},
		"control":          {leak("a", `\u001b[2J\u202e\n\r\u0085\u2028`, "1"), "a"},
		"odd names":        {leak(`a b%20?#:\n\u001b`, "x", "1"), "a b%20?#:\n\x1b"},
		"like a scheme":    {leak("javascript:x", "x", "1"), "javascript:x"},
		"nothing said":     {leak("a", "", "1"), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := read(t, said(t, "gitleaks", c.out))
			tool := r.toolNamed("gitleaks")
			validSARIF(t, r)
			if c.path == "" {
				if len(r.Findings) != 0 || len(tool.Notes) != 1 {
					t.Errorf("taken: %+v", r.Findings)
				}
				return
			}
			if len(r.Findings) != 1 || r.Findings[0].Path != c.path {
				t.Fatalf("got %+v", r.Findings)
			}
			harmless(t, r.Findings[0])
		})
	}
}

// harmless fails when a finding could do something to a terminal or a reader.
func harmless(t testing.TB, f Finding) {
	t.Helper()
	for _, s := range []string{f.Rule, f.Message, f.Confidence} {
		if s != "" && strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || len(s) > maxMessage+8 {
			t.Errorf("%q", s)
		}
	}
	if f.Line < 1 || f.EndLine < f.Line || f.Column < 0 || f.Rule == "" || f.Message == "" {
		t.Errorf("%+v", f)
	}
}

func TestTooMuch(t *testing.T) {
	t.Parallel()
	one := `{"RuleID":"r","StartLine":1,"File":"a` + strings.Repeat("b", 10) + `"}`
	r := read(t, said(t, "gitleaks", "["+strings.Repeat(one+",", maxFindings+7)+one+"]"))
	// All are equal, so they are one.
	if tool := r.toolNamed("gitleaks"); tool.Found != maxFindings+8 || len(r.Findings) != 1 || len(tool.Notes) != 1 || !strings.HasPrefix(tool.Notes[0], "8 findings more") {
		t.Errorf("%d, %d, %v", tool.Found, len(r.Findings), tool.Notes)
	}
	r = read(t, said(t, "gitleaks", "["+strings.Repeat(" ", maxOutput)+"]"))
	if tool := r.toolNamed("gitleaks"); tool.Status != StatusError {
		t.Errorf("%+v", tool)
	}
	r = read(t, said(t, "gosec", `{"Golang errors":{"/w/a.go":[`+strings.Repeat(`{"error":"x"},`, 200)+`{"error":"x"}]}}`))
	if tool := r.toolNamed("gosec"); len(tool.Errors) != maxNotes+1 || tool.Errors[maxNotes] != "and 151 more" {
		t.Errorf("%d: %v", len(tool.Errors), tool.Errors)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	index := `{"runs":[{"tool":"ruff","dir":"/w","files":0}]}`
	for name, b := range map[string]*bytes.Buffer{
		"nothing":         {},
		"junk":            bytes.NewBufferString(strings.Repeat("junk", 1000)),
		"no list":         stream(t, "{", nil),
		"too many runs":   stream(t, `{"runs":[`+strings.Repeat(`{},`, maxRuns)+`{}]}`, nil),
		"twice":           stream(t, index, nil, "0.out", "0.out"),
		"of nobody":       stream(t, index, nil, "1.out"),
		"an odd name":     stream(t, index, nil, "../0.out"),
		"another kind":    stream(t, index, nil, "0.txt"),
		"cut in the half": bytes.NewBuffer(recorded(t).Bytes()[:2800]),
	} {
		if r, err := Read(b, Options{Root: "/w"}, ""); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func FuzzRead(f *testing.F) {
	for i := range tools {
		f.Add(i, []byte(`[]`))
		f.Add(i, []byte(`[{"ruleId":"a","file":"b","filename":"c","filePath":"d","severity":2,"messages":[{"ruleId":"x","line":1}]}]`))
	}
	for i, n := range []int{0, 2, 3, 4, 5, 6} {
		text, err := os.ReadFile("testdata/recorded/" + string(rune('0'+n)) + ".out")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, text)
	}
	f.Fuzz(func(t *testing.T, which int, out []byte) {
		name := tools[uint(which)%uint(len(tools))].Name
		r, err := Read(said(t, name, string(out)), Options{Root: "/w"}, "")
		if err != nil {
			t.Fatal(err)
		}
		r.Place(func(string) []byte { return out })
		for _, finding := range r.Findings {
			harmless(t, finding)
		}
		validSARIF(t, r)
	})
}

func FuzzStream(f *testing.F) {
	f.Add(recorded(f).Bytes())
	f.Add(said(f, "ruff", "[]").Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Read(bytes.NewReader(in), Options{Root: "/w"}, "")
		if err == nil {
			validSARIF(t, r)
		}
	})
}
