package compat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// results is how each test ended: pass, fail, skip, or pytest's xskip (failed as
// expected) and xpass. A name that comes more than once has several, in order.
type results map[string][]string

// parse reads what the project's tests printed.
func parse(kind ecosystem, r io.Reader) (results, error) {
	line := parseLine
	if kind == golang {
		line = parseGoEvent
	}
	got := results{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if test, result, ok := line(lines.Text()); ok {
			got[test] = append(got[test], result)
		}
	}
	for _, ends := range got {
		slices.Sort(ends) // tests of one name may end in any order
	}
	if len(got) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("no %s test reported anything", kind)
	}
	return got, lines.Err()
}

// parseLine takes a line of our reporters: compat {"test": …, "result": …}.
func parseLine(line string) (test, result string, ok bool) {
	text, ok := strings.CutPrefix(line, "compat ")
	if !ok {
		return "", "", false
	}
	var e struct{ Test, Result string }
	if json.Unmarshal([]byte(text), &e) != nil {
		return "", "", false
	}
	return e.Test, e.Result, true
}

// parseGoEvent takes a line of `go test -json`. A package's own end says nothing
// that its tests don't: one that ends early has not run some of them.
func parseGoEvent(line string) (test, result string, ok bool) {
	var e struct{ Action, Package, Test string }
	if json.Unmarshal([]byte(line), &e) != nil {
		return "", "", false
	}
	ended := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
	return e.Package + " " + e.Test, e.Action, ended && e.Test != ""
}

// count returns how many ends there are of each kind.
func (r results) count() map[string]int {
	n := map[string]int{}
	for _, ends := range r {
		for _, end := range ends {
			n[end]++
		}
	}
	return n
}

// total is the number of ends.
func (r results) total() int {
	n := 0
	for _, ends := range r {
		n += len(ends)
	}
	return n
}

// differences has a line for every test that did not end alike.
func differences(outside, inside results) map[string]string {
	diff := map[string]string{}
	all := maps.Clone(outside)
	maps.Copy(all, inside)
	for test := range all {
		if out, in := outside[test], inside[test]; !slices.Equal(out, in) {
			diff[test] = fmt.Sprintf("outside %s, inside %s", ends(out), ends(in))
		}
	}
	return diff
}

func ends(e []string) string {
	if len(e) == 0 {
		return "not run"
	}
	return strings.Join(e, "+")
}
