package scan

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// changedBy reads what a scanner has said of a file that was before and is now, and
// keeps what was changed.
func changedBy(t *testing.T, tool, said1, before, now string) []Finding {
	t.Helper()
	r := read(t, said(t, tool, said1))
	r.Place(func(string) []byte { return []byte(now) })
	if err := r.KeepChanged(func(string) (Lines, error) { return Changed([]byte(before), []byte(now)), nil }); err != nil {
		t.Fatal(err)
	}
	return r.Findings
}

// TestAChangeCanNotMoveFindings: what a scanner takes for lines isn't always what git
// does. A finding on a changed line counts whatever its number is said to be.
func TestAChangeCanNotMoveFindings(t *testing.T) {
	t.Parallel()
	base := strings.Repeat("x = 1\n", 20)
	eslint := func(line int) string {
		return fmt.Sprintf(`[{"filePath":"/w/a","messages":[{"ruleId":"r","severity":1,"message":"m","line":%d,"column":3,"endLine":%d,"endColumn":5}]}]`, line, line)
	}
	ruff := func(line int) string {
		return fmt.Sprintf(`[{"code":"S1","message":"m","filename":"/w/a","location":{"row":%d,"column":3},"end_location":{"row":%d,"column":5}}]`, line, line)
	}
	bandit := func(line int) string {
		return fmt.Sprintf(`{"results":[{"test_id":"B1","issue_text":"m","filename":"a","line_number":%d,"line_range":[%d]}]}`, line, line)
	}
	gosec := func(line int) string {
		return fmt.Sprintf(`{"Issues":[{"rule_id":"G1","details":"m","file":"/w/a","line":"%d"}]}`, line)
	}
	const evil = "eval(x)\n"
	for name, c := range map[string]struct {
		tool, said, now string
		line            int // that is reported, 0 for none
	}{
		"nothing odd":                      {"eslint", eslint(1), evil + base, 1},
		"an unchanged line":                {"eslint", eslint(5), evil + base, 0},
		"carriage returns":                 {"eslint", eslint(6), "/*\r\r\r\r\r*/" + evil + base, 1},
		"carriage returns elsewhere":       {"eslint", eslint(9), "/*\r\r\r\r\r*/\n" + base, 0},
		"line separators":                  {"eslint", eslint(4), "/*\u2028\u2029\u2028*/" + evil + base, 1},
		"carriage returns, Ruff":           {"ruff", ruff(4), "#\r#\r#\r" + evil + base, 1},
		"carriage returns, bandit":         {"bandit", bandit(4), "#\r#\r#\r" + evil + base, 1},
		"separators are no lines of Ruff":  {"ruff", ruff(2), "#\u2028\u2028\n" + evil + base, 2},
		"CRLF":                             {"ruff", ruff(2), "#\r\n" + evil + base, 2},
		"another encoding":                 {"bandit", bandit(9), "# coding: utf-7\n#+AAoACgAKAAo-" + evil + base, 9},
		"another encoding, behind a break": {"bandit", bandit(9), "#\r# vim: set fileencoding=utf_7 :\n#+AAoACgAKAAo-" + evil + base, 8},
		"a usual encoding":                 {"bandit", bandit(9), "# -*- coding: UTF-8 -*-\n" + evil + base, 0},
		"a directive of Go":                {"gosec", gosec(9), "//line a:9\n" + evil + base, 9},
		"a directive of Go, inline":        {"gosec", gosec(9), "/*line a:9*/" + evil + base, 9},
		"a directive on the base branch":   {"gosec", gosec(9), "", 0},
		"a line that isn't there":          {"eslint", eslint(99), evil + base, 99},
	} {
		before := base
		if c.now == "" {
			before, c.now = "//line a:9\n"+base, "//line a:9\n"+base
		}
		line := 0
		for _, f := range changedBy(t, c.tool, c.said, before, c.now) {
			line = f.Line
		}
		if line != c.line {
			t.Errorf("%s: reported in line %d, want %d", name, line, c.line)
		}
	}
}

// TestNotebooks: a cell's lines aren't the file's.
func TestNotebooks(t *testing.T) {
	t.Parallel()
	const found = `[{"cell":2,"code":"S1","message":"m","filename":"/w/a.ipynb","location":{"row":1,"column":3},"end_location":{"row":1,"column":5}}]`
	got := changedBy(t, "ruff", found, "{\n1\n}\n", "{\n1\n2\n}\n")
	if len(got) != 1 || got[0].Line != 1 || got[0].Column != 0 || got[0].Message != "m (cell 2, line 1)" {
		t.Errorf("%+v", got)
	}
	if got := changedBy(t, "ruff", found, "{}\n", "{}\n"); len(got) != 0 {
		t.Errorf("unchanged, but %+v", got)
	}
}

// TestManyFindingsOfOneLine: neither time nor memory is the product of a line's length
// and the number of its findings.
func TestManyFindingsOfOneLine(t *testing.T) {
	t.Parallel()
	line := []byte(strings.Repeat("é", 4<<20))
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, `{"ruleId":"r%d","severity":1,"message":"m","line":1,"column":%d,"endColumn":%d},`, i, i*200+1, 4000000-i)
	}
	r := read(t, said(t, "eslint", `[{"filePath":"/w/a","messages":[`+strings.TrimSuffix(b.String(), ",")+`]}]`))
	begin := time.Now()
	r.Place(func(string) []byte { return line })
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	if f := r.Findings[100]; len(r.Findings) != 20000 || f.Column != 20001 || f.EndColumn != 3999900 {
		t.Errorf("%d findings, %+v", len(r.Findings), f)
	}
}

// TestListsOfNothing: what is shortest in JSON is largest in memory.
func TestListsOfNothing(t *testing.T) {
	const size = 32 << 20
	for tool, around := range map[string][3]string{
		"bandit":   {`{"results":[`, `{},`, `{}]}`},
		"eslint":   {`[`, `{},`, `{}]`},
		"gosec":    {`{"Golang errors":{"x":[`, `{},`, `{}]}}`},
		"gitleaks": {`[`, `{},`, `{}]`},
	} {
		text := said(t, tool, around[0]+strings.Repeat(around[1], size/len(around[1]))+around[2])
		stop, most := make(chan bool), make(chan uint64)
		runtime.GC()
		go peak(stop, most)
		if r := read(t, text); r.toolNamed(tool).Status != StatusError {
			t.Errorf("%s: so long a list is fine", tool)
		}
		stop <- true
		if used := <-most; used > 16*size {
			t.Errorf("%s: %d MiB for %d MiB", tool, used>>20, size>>20)
		}
	}
}

// peak is the most memory in use until it is stopped.
func peak(stop chan bool, most chan uint64) {
	var top uint64
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		top = max(top, m.HeapAlloc)
		select {
		case <-tick.C:
		case <-stop:
			tick.Stop()
			most <- top
			return
		}
	}
}
