package smoke

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/guest/probe"
)

func TestPassed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		verdicts []Verdict
		want     bool
	}{
		{nil, false},
		{[]Verdict{NotApplicable}, false},
		{[]Verdict{Held}, true},
		{[]Verdict{Held, NotApplicable}, true},
		{[]Verdict{Held, CouldNotRun}, false},
		{[]Verdict{Held, Broken}, false},
		{[]Verdict{Held, "likely"}, false},
	} {
		r := &Report{}
		for _, v := range tt.verdicts {
			r.Results = append(r.Results, Result{Verdict: v})
		}
		if r.Passed() != tt.want {
			t.Errorf("%v: passed is %v", tt.verdicts, r.Passed())
		}
	}
}

// Evidence goes through JSON as it is.
func TestEvidence(t *testing.T) {
	t.Parallel()
	r := &Report{
		Started: time.Now().Add(-time.Minute), Took: time.Second, Bound: evidence.Bound{BootID: "b", RuntimeArgs: []string{"-a"}},
		Results: []Result{{ID: "A", Verdict: Held}, {ID: "B", Verdict: NotApplicable}}, NotRun: []NotRun{{"C", "why"}},
	}
	e := r.Evidence()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back Evidence
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("through JSON (-before +after):\n%s", diff)
	}
}

// An attempt holds only by an error that is known; success counts more than any doubt.
func TestAttempts(t *testing.T) {
	t.Parallel()
	list := []Expect{{Probe: "P", Sub: "a", Held: []string{"EPERM"}, Broken: []string{"ENOENT"}}, {Probe: "P", Sub: "b", Held: []string{"EPERM"}}}
	for _, tt := range []struct {
		a, b string
		want Verdict
	}{
		{"EPERM", "EPERM", Held},
		{"EPERM", "", Broken},
		{"ENOENT", "EPERM", Broken},
		{"EPERM", "ENOENT", CouldNotRun},
		{"EPERM", "errno 999", CouldNotRun},
		{"EPERM", probe.ErrnoTimeout, CouldNotRun},
		{"EPERM", probe.ErrnoDied, CouldNotRun},
		{"EINVAL", "", Broken},
	} {
		c := &Case{Lines: []probe.Line{{Probe: "P", Sub: "a", Errno: tt.a}, {Probe: "P", Sub: "b", Errno: tt.b}}}
		if o := c.attempts(list); o.Verdict != tt.want {
			t.Errorf("%q and %q: %s", tt.a, tt.b, o.Verdict)
		}
		c.Lines = c.Lines[:1]
		if o := c.attempts(list); o.Verdict == Held {
			t.Errorf("%q alone holds", tt.a)
		}
	}
}

// Nothing is judged whose workbench failed.
func TestWorkbench(t *testing.T) {
	t.Parallel()
	e := Entry{ID: "X", Inside: []string{"P"}, Judge: func(*Case) Outcome { return Outcome{Verdict: Held} }}
	good := []probe.Line{{Probe: "P", Sub: probe.SubBefore}, {Probe: "P", Sub: probe.SubAfter}}
	if o := e.judge(&Case{Lines: good}); o.Verdict != Held {
		t.Errorf("a good one: %+v", o)
	}
	for name, lines := range map[string][]probe.Line{
		"none": nil, "no after": good[:1], "no before": good[1:],
		"failed": {good[0], {Probe: "P", Sub: probe.SubAfter, Errno: "EACCES"}},
	} {
		if o := e.judge(&Case{Lines: lines}); o.Verdict != CouldNotRun {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
