package scan

import (
	"strings"
	"testing"
)

// placed are the findings at some lines of a text, with their fingerprints.
func placed(text string, lines ...int) []Finding {
	r := Report{}
	for _, l := range lines {
		r.Findings = append(r.Findings, Finding{Tool: "ruff", Rule: "S1", Path: "a.py", Line: l, EndLine: l})
	}
	r.Place(func(string) []byte { return []byte(text) })
	return r.Findings
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	before := placed("x = 1\neval(a)\neval(b)\neval(a)\n", 2, 3, 4)
	moved := placed("# new\n\n\nx = 1\n    eval(a)\n\teval(b)\r\n\n\neval( a)\neval(a)\n", 5, 6, 10)
	for i := range before {
		if before[i].Fingerprint != moved[i].Fingerprint {
			t.Errorf("finding %d has another fingerprint when it moved", i)
		}
	}
	seen := map[string]bool{}
	for _, f := range append(before, placed("eval(c)\n", 1)...) {
		if seen[f.Fingerprint] || len(f.Fingerprint) != 32 {
			t.Errorf("%s isn't a fingerprint of its own", f.Fingerprint)
		}
		seen[f.Fingerprint] = true
	}
	other := Report{Findings: []Finding{{Tool: "ruff", Rule: "S2", Path: "a.py", Line: 2, EndLine: 2}, {Tool: "ruff", Rule: "S1", Path: "b.py", Line: 2, EndLine: 2}}}
	other.Place(func(string) []byte { return []byte("x = 1\neval(a)\n") })
	for _, f := range other.Findings {
		if seen[f.Fingerprint] {
			t.Errorf("another rule or file has the same fingerprint")
		}
	}
}

// TestFingerprintOfSecrets: it must not depend on the secret, since it is shown.
func TestFingerprintOfSecrets(t *testing.T) {
	t.Parallel()
	prints := map[string]bool{}
	for _, secret := range []string{"hunter2", "letmein"} {
		r := read(t, said(t, "gitleaks", `[{"RuleID":"r","StartLine":1,"File":"a","Match":"p = REDACTED"}]`))
		r.Place(func(string) []byte { return []byte("p = " + secret) })
		prints[r.Findings[0].Fingerprint] = true
	}
	if len(prints) != 1 {
		t.Error("it does")
	}
}

func TestColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		u       unit
		line    string
		n, want int
	}{
		{runes, "", 7, 7},
		{bytesUTF8, "größe = 1", 1, 1},
		{bytesUTF8, "größe = 1", 8, 6},
		{bytesUTF8, "größe", 8, 6},
		{bytesUTF8, "größe", 9, 0},
		{utf16Units, "😀 = x", 6, 5},
		{utf16Units, "😀", 3, 2},
		{utf16Units, "a", 5, 0},
		{utf16Units, "a", 0, 0},
	} {
		if got := column(c.u, []byte(c.line), c.n); got != c.want {
			t.Errorf("column %d of %q in unit %d is %d, want %d", c.n, c.line, c.u, got, c.want)
		}
	}
	if got := column(bytesUTF8, nil, 3); got != 0 {
		t.Errorf("column in no line is %d", got)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, now, want string // want has a + for each changed line
	}{
		"same":       {"a\nb\n", "a\nb\n", "  "},
		"new file":   {"", "a\nb\n", "++"},
		"added":      {"a\nc\n", "a\nb\nc\n", " + "},
		"removed":    {"a\nb\nc\n", "a\nc\n", "  "},
		"replaced":   {"a\nb\nc\nd\n", "a\nB\nc\nd\nE\n", " +  +"},
		"no newline": {"a\nb", "a\nb\nc", "  +"},
		"CRLF":       {"a\nb\n", "a\r\nb\r\nc\r\n", "  +"},
		"moved down": {"x\ny\n", "1\n2\n3\nx\ny\n", "+++  "},
	} {
		got := ""
		lines := Changed([]byte(c.before), []byte(c.now))
		for i := range len(c.want) {
			got += map[bool]string{true: "+", false: " "}[lines.Touch(i+1, i+1)]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if !Changed([]byte("a"), make([]byte, maxDiffed+1)).Touch(5, 5) || Changed([]byte("\x00"), []byte("\x00")).Touch(1, 1) {
		t.Error("large and binary files count as a whole")
	}
	if l := Changed([]byte("a\nb\nc\n"), []byte("a\nB\nc\n")); !l.Touch(1, 3) || l.Touch(3, 9) {
		t.Error("a finding of several lines counts when one of them is changed")
	}
}

// FuzzChanged: what isn't changed is the same line as before.
func FuzzChanged(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd\n")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, before, now string) {
		l := Changed([]byte(before), []byte(now))
		had := map[string]int{}
		for line := range strings.SplitSeq(unixLines([]byte(before)), "\n") {
			had[line]++
		}
		for i, line := range strings.Split(unixLines([]byte(now)), "\n") {
			if line != "" && !l.Touch(i+1, i+1) {
				if had[line]--; had[line] < 0 {
					t.Fatalf("line %d, %q, isn't changed, but new", i+1, line)
				}
			}
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig([]byte("other: 1\ntools:\n  x: []\n  sast:\n    disable: [gosec]\n    ignorePaths: ['vendor/**', '/**/*_{test,spec}.{py,pyi}']\n"))
	if err != nil || len(c.Disable) != 1 || len(c.IgnorePaths) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	r := Report{}
	for _, p := range []string{"vendor/a/b.go", "a/vendor/b.go", "x_test.py", "a/b/c_test.py", "vendored.go"} {
		r.Findings = append(r.Findings, Finding{Path: p})
	}
	r.Ignore(c.IgnorePaths)
	if len(r.Findings) != 2 || r.Ignored != 3 {
		t.Errorf("left %+v", r.Findings)
	}
	if c, err := ParseConfig(nil); err != nil || len(c.Disable)+len(c.IgnorePaths) > 0 {
		t.Errorf("an empty file is %+v, %v", c, err)
	}
	for _, bad := range []string{
		"tools: {sast: {disable: [gosek]}}", "tools: {sast: {ignorePaths: ['[']}}", "tools: {sast: {ignorePaths: ['']}}",
		"tools: {sast: {ignorePaths: ['**/**/**/**/x']}}", "tools: {sast: {ignorePaths: ['" + strings.Repeat("{a,a}", 30) + "x']}}",
		"tools: {sast: {ignorePaths: ['" + strings.Repeat("{a,{a,a}}", 20) + "x']}}", "tools: {sast: {ignorePaths: ['{" + strings.Repeat("a,", 100) + "a}']}}", "tools: [", "tools: {sast: {disable: gosec: 1}}",
		"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\ntools: {sast: {disable: *b}}",
		strings.Repeat("#", MaxConfig+1),
	} {
		if c, err := ParseConfig([]byte(bad)); err == nil {
			t.Errorf("%.60q is %+v", bad, c)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("tools:\n  sast:\n    disable: [gosec]\n    ignorePaths: ['vendor/**']\n"))
	f.Add([]byte("tools: {sast: {ignorePaths: ['**/*.{spec,test}.{js,ts}', '/**/x?[a-c]']}}"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if c, err := ParseConfig(text); err == nil {
			r := Report{Findings: []Finding{{Path: "a/b/c/d/e/f.go"}}}
			r.Ignore(c.IgnorePaths)
		}
	})
}
