package fix

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/job"
)

const policy = `
image: node
allow: [registry.example]
setup: [npm ci]
test:
  - {name: unit, run: npm test, timeout: 5m}
  - npm run e2e
lint: [npm run lint]
env: {CI: "1"}
`

func TestPlan(t *testing.T) {
	t.Parallel()
	p, err := ParsePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	s := job.Spec{ID: "x", Root: job.Root{Kind: job.RootHost}, Steps: p.Plan(true, true).Steps, Limits: job.Limits{}}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, st := range s.Steps {
		names = append(names, st.Name+" "+string(st.Network))
	}
	want := []string{"apply the patch registries", "npm ci registries", "unit none", "npm run e2e none", "npm run lint none"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	if u := s.Steps[2]; u.Timeout != 5*time.Minute || !u.ContinueOnFailure || u.Env[0] != "CI=1" || s.Steps[1].ContinueOnFailure {
		t.Errorf("%+v", u)
	}
	if n := p.Plan(false, false).Steps; len(n) != 4 || n[0].Network != job.NetworkNone {
		t.Errorf("%+v", n)
	}
}

func TestParsePolicyRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "setup: [x]", "test: [x]\nmore: 1", "test: [{run: x, shell: bash}]", "test: ['']", "test: [{run: x, timeout: -1s}]",
		"test: [x, x]", "test: x: y", "test: [" + strings.Repeat("x, ", maxCommands+1) + "]", "test: [x] #" + strings.Repeat("x", MaxPolicy),
	} {
		if p, err := ParsePolicy([]byte(bad)); err == nil {
			t.Errorf("%.50q is %+v", bad, p)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(policy))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if p, err := ParsePolicy(text); err == nil {
			p.Plan(true, true)
		}
	})
}

// ran is a job's outcomes: one letter for each step, p f t or - for passed, failed,
// timed out and not run.
func ran(t *testing.T, patched bool, how string) []Ran {
	t.Helper()
	p, err := ParsePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	var res job.Result
	for _, c := range how {
		s := job.StepResult{}
		switch c {
		case 'f':
			s.Exit = 1
		case 't':
			s.Exit, s.Reason = 137, job.ReasonTimeoutWall
		case '-':
			s.Exit, s.Reason = -1, job.ReasonLimitMemory
		case 'n':
			s.Exit = 127
		}
		res.Steps = append(res.Steps, s)
	}
	return p.Plan(patched, true).Outcomes(res)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after, want, undecided string
		broke                          bool
	}{
		"mends":              {before: "pffp", after: "ppppp", want: "still passing, fixed, fixed, still passing"},
		"breaks":             {before: "pppf", after: "ppfpf", want: "still passing, broken, still passing, still failing", broke: true},
		"slows":              {before: "pppp", after: "pptpp", want: "still passing, broken, still passing, still passing", broke: true},
		"does not apply":     {before: "pppp", after: "f", broke: true},
		"breaks setup":       {before: "ppfp", after: "pf", want: "broken, broken, still failing, broken", broke: true},
		"no setup before":    {before: "f", after: "", undecided: "npm ci"},
		"no git":             {before: "pppp", after: "n", undecided: "apply the patch"},
		"ended applying":     {before: "pppp", after: "-", undecided: "apply the patch"},
		"slow to apply":      {before: "pppp", after: "t", undecided: "apply the patch"},
		"ended setting up":   {before: "pppp", after: "p-", undecided: "npm ci"},
		"slow to set up":     {before: "pppp", after: "pt", want: "broken, broken, broken, broken", broke: true},
		"ended before":       {before: "pp-", after: "", undecided: "npm run e2e"},
		"ended after":        {before: "pppp", after: "ppp-", undecided: "npm run e2e"},
		"stopped afterwards": {before: "pppp", after: "ppp", undecided: "npm run e2e"},
	} {
		before, after := ran(t, false, c.before), ran(t, true, c.after)
		name1, undecided := Undecided(before, after)
		if undecided != (c.undecided != "") || name1 != c.undecided {
			t.Errorf("%s: undecided %q, want %q", name, name1, c.undecided)
			continue
		}
		if undecided {
			continue
		}
		got := Compare(before, after)
		var verdicts []string
		for _, s := range got.Steps {
			verdicts = append(verdicts, string(s.Verdict))
		}
		if strings.Join(verdicts, ", ") != c.want || got.Broke() != c.broke {
			t.Errorf("%s: %v, broke %v", name, verdicts, got.Broke())
		}
	}
}
