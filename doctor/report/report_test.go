package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"golang.org/x/net/html"

	"github.com/quavon/quavon/doctor"
)

var update = flag.Bool("update", false, "write the golden files")

// sample has every state, an ignored failure and hostile text.
func sample() *doctor.Report {
	check := func(code, name, group string) *doctor.Check {
		return &doctor.Check{Code: code, Name: name, Title: "the " + name + " is right", Group: group, Severity: doctor.Failure}
	}
	return &doctor.Report{
		Started: time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC), Took: 1500 * time.Millisecond,
		Results: []doctor.Result{
			{Check: check("QD901", "platform", "Host"), Finding: doctor.Passed("Linux on x86_64"), Took: time.Millisecond},
			{Check: check("QD905", "clock", "Host"), Finding: doctor.Warned("nothing keeps the clock", "install chrony")},
			{Check: check("QD911", "docker-address", "Docker"), Finding: doctor.Skipped("there is no Docker engine here")},
			{Check: check("QD914", "daemon-json", "Docker"), Ignored: true, Finding: doctor.Failed("line 3, column 1", "correct that place")},
			{
				Check:   check("QD943", "secrets", "State"),
				Finding: doctor.Failed("secrets can be read by others: s3cr3t-value of /root/keys", "run `chmod 600 /root/keys`", "\x1b[2J<script>\n/root/keys", "a & b"),
			},
			{Check: check("QD952", "runtime", "Sandbox"), Finding: doctor.Together("runner", []doctor.Part{
				{Subject: "r1", Finding: doctor.Passed("a job said hello", "in 300 ms")},
				{Subject: "runner-2", Finding: doctor.Failed("no job can be started", "run `make`", "<b>EOF</b>\x1b[2J")},
				{Subject: "r3", Finding: doctor.Warned("it is old", "upgrade /root/r3")},
			})},
			{Check: check("QD957", "escape", "Sandbox"), Finding: doctor.Finding{State: doctor.Error, Message: "no probes", Fix: "none", Err: errors.New("x")}},
		},
	}
}

func render(t *testing.T, format string, o Options) string {
	t.Helper()
	var b bytes.Buffer
	o.Version = "v1.2.3"
	if err := Write(&b, format, sample(), o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	mask := Masker([]string{"s3cr3t-value", "", "x"}, "/root")
	for file, c := range map[string]struct {
		format string
		o      Options
	}{
		"plain.txt":   {"text", Options{}},
		"narrow.txt":  {"text", Options{Width: 40}},
		"wide.txt":    {"text", Options{Width: 80}},
		"wide120.txt": {"text", Options{Width: 120}},
		"dumb.txt":    {"text", Options{Width: 80, Color: ColorFor(true, terminal("dumb", ""))}},
		"nocolor.txt": {"text", Options{Width: 80, Color: ColorFor(true, terminal("xterm", "1"))}},
		"color.txt":   {"text", Options{Width: 80, Color: true}},
		"json.json":   {"json", Options{}},
		"junit.xml":   {"junit", Options{}},
		"page.html":   {"html", Options{Mask: mask}},
	} {
		got := render(t, c.format, c.o)
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (go test -update writes it):\n%s", file, got)
		}
	}
}

// terminal is an environment.
func terminal(term, noColor string) func(string) string {
	return func(key string) string { return map[string]string{"TERM": term, "NO_COLOR": noColor}[key] }
}

func TestColorFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal      bool
		term, noColor string
		want          bool
	}{
		{true, "xterm-256color", "", true},
		{true, "dumb", "", false},
		{true, "", "", false},
		{true, "xterm", "0", false}, // any value counts, as no-color.org has it
		{false, "xterm", "", false},
	} {
		if got := ColorFor(c.terminal, terminal(c.term, c.noColor)); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// hostile are texts as a host, a runner or an engine could give them.
var hostile = []string{
	"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</td></tr></table><h1>all is well</h1>", "</style><style>*{display:none}",
	"</title><script>alert(1)</script>", "javascript:alert(1)", "{{.Doc}}", "<!--", "]]>", "\x1b[2J\x1b]0;owned\a", "\u202elleh si siht",
	"\u2066hidden\u2069", "a\x00b", "\xff\xfe", "line\r\noverwritten\rx", "&lt;b&gt;", strings.Repeat("x", 5000), "pass  QD957  escape",
}

// TestHostileTexts puts them into every place that they can reach, in every form.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for _, h := range hostile {
		f := doctor.Failed(h, h, h)
		f.Parts = []doctor.Part{{Subject: h, Finding: doctor.Warned(h, h, h)}}
		c := &doctor.Check{Code: "QD901", Name: "platform", Title: "title", Group: "Host"}
		r := &doctor.Report{Results: []doctor.Result{{Check: c, Finding: f}}}
		out := map[string]string{}
		for _, format := range Formats {
			var b bytes.Buffer
			if err := Write(&b, format, r, Options{Version: h, Width: 80}); err != nil {
				t.Fatal(err)
			}
			out[format] = b.String()
		}
		onlyOurTags(t, h, out["html"])
		for _, format := range []string{"text", "html"} {
			if strings.ContainsAny(out[format], "\x1b\x00\a\r\u202e\u2066\u2069") || !utf8.ValidString(out[format]) {
				t.Errorf("%q: %s lets through what moves or turns text", h, format)
			}
		}
		if lines := strings.Count(out["text"], "\n  fail "); lines != 1 || strings.Contains(out["text"], "\n  pass ") {
			t.Errorf("%q: a line of its own making:\n%s", h, out["text"])
		}
		if !json.Valid([]byte(out["json"])) {
			t.Errorf("%q: no JSON", h)
		}
		if err := xml.Unmarshal([]byte(out["junit"]), new(junitSuites)); err != nil {
			t.Errorf("%q: no XML: %v", h, err)
		}
	}
}

// onlyOurTags compares the page's elements and attributes with those that it has
// whatever it says.
func onlyOurTags(t *testing.T, what, page string) {
	t.Helper()
	allowed := []string{"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "br", "small", "table", "tbody", "tr", "td", "em", "ul", "li", "strong"}
	headings := 0
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if headings != 1 {
				t.Errorf("%q: %d first headings", what, headings)
			}
			return
		case html.CommentToken:
			t.Errorf("%q: a comment", what)
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			if tag.Data == "h1" {
				headings++
			}
			for _, a := range tag.Attr {
				if !slices.Contains([]string{"lang", "charset", "name", "content", "http-equiv", "class"}, a.Key) {
					t.Errorf("%q: <%s %s>", what, tag.Data, a.Key)
				}
			}
			if !slices.Contains(allowed, tag.Data) {
				t.Errorf("%q: <%s>", what, tag.Data)
			}
		}
	}
}

func TestTextKeepsItsWidthAndPlace(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 60, 80, 120} {
		for line := range strings.Lines(render(t, "text", Options{Width: width})) {
			if n := lipgloss.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
	}
	if s := render(t, "text", Options{}); strings.Contains(s, "\x1b") {
		t.Error("text without colour has escapes")
	}
	if s := render(t, "text", Options{Color: true}); strings.Contains(s, "\x1b[2J") || !strings.Contains(s, "\x1b[") {
		t.Error("coloured text has foreign escapes, or none of its own")
	}
}

func TestHTMLHides(t *testing.T) {
	t.Parallel()
	s := render(t, "html", Options{Mask: Masker([]string{"s3cr3t-value"}, "/root")})
	for _, never := range []string{"s3cr3t", "/root", "<script", "http:", "https:", "src="} {
		if strings.Contains(s, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if s := render(t, "html", Options{}); !strings.Contains(s, "s3cr3t") {
		t.Error("the sample has no secret to hide")
	}
}

// TestSchema compares the document's fields with the schema's.
func TestSchema(t *testing.T) {
	t.Parallel()
	var schema struct {
		Required   []string
		Properties map[string]struct {
			Const any
			Items struct {
				Required   []string
				Properties map[string]any
			}
		}
	}
	if err := json.Unmarshal([]byte(Schema), &schema); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(render(t, "json", Options{})), &doc); err != nil {
		t.Fatal(err)
	}
	if doc["version"] != schema.Properties["version"].Const || doc["schema"] != schema.Properties["schema"].Const {
		t.Errorf("version %v of %v", doc["version"], doc["schema"])
	}
	compare(t, doc, schema.Required, func(k string) bool { _, ok := schema.Properties[k]; return ok })
	items := schema.Properties["checks"].Items
	checks, ok := doc["checks"].([]any)
	if !ok || len(checks) == 0 {
		t.Fatal("no checks")
	}
	for _, c := range checks {
		entry, _ := c.(map[string]any)
		compare(t, entry, items.Required, func(k string) bool { _, ok := items.Properties[k]; return ok })
	}
}

func compare(t *testing.T, have map[string]any, required []string, known func(string) bool) {
	t.Helper()
	for _, k := range required {
		if _, ok := have[k]; !ok {
			t.Errorf("%q is missing", k)
		}
	}
	for k := range have {
		if !known(k) {
			t.Errorf("%q isn't in the schema", k)
		}
	}
}

func TestJUnitParses(t *testing.T) {
	t.Parallel()
	var s junitSuites
	if err := xml.Unmarshal([]byte(render(t, "junit", Options{})), &s); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, suite := range s.Suites {
		for _, c := range suite.Cases {
			switch {
			case c.Failure != nil:
				states = append(states, "fail")
			case c.Error != nil:
				states = append(states, "error")
			case c.Skipped != nil:
				states = append(states, "skip")
			default:
				states = append(states, "pass")
			}
		}
	}
	if want := []string{"pass", "pass", "skip", "skip", "fail", "fail", "error"}; !slices.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
}
