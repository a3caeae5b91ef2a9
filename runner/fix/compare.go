package fix

import "slices"

// Verdict is what the patch did to a command.
type Verdict string

// Verdicts.
const (
	Fixed        Verdict = "fixed"
	Broken       Verdict = "broken"
	StillFailing Verdict = "still failing"
	StillPassing Verdict = "still passing"
)

// Compared is a command before and after.
type Compared struct {
	Kind    Kind    `json:"kind"`
	Name    string  `json:"name"`
	Before  Outcome `json:"before"`
	After   Outcome `json:"after"`
	Verdict Verdict `json:"verdict"`
}

// Comparison is what a patch does.
type Comparison struct {
	Steps []Compared `json:"steps"`
	// Applied says whether the patch fits the workspace.
	Applied bool `json:"applied"`
}

// Broke says whether the patch does harm.
func (c Comparison) Broke() bool {
	return !c.Applied || slices.ContainsFunc(c.Steps, func(s Compared) bool { return s.Verdict == Broken })
}

// Compare compares the commands of two jobs with the same policy: before without the
// patch, after with it.
func Compare(before, after []Ran) Comparison {
	c := Comparison{Applied: true}
	for _, a := range after {
		if a.Kind == Apply {
			c.Applied = a.Outcome == Passed
		}
	}
	for _, b := range before {
		if i := slices.IndexFunc(after, func(a Ran) bool { return a.Kind == b.Kind && a.Name == b.Name }); i >= 0 && c.Applied {
			c.Steps = append(c.Steps, Compared{b.Kind, b.Name, b.Outcome, after[i].Outcome, verdict(b.Outcome, after[i].Outcome)})
		}
	}
	return c
}

func verdict(before, after Outcome) Verdict {
	switch was, is := before == Passed, after == Passed; {
	case was && is:
		return StillPassing
	case was:
		return Broken
	case is:
		return Fixed
	}
	return StillFailing
}

// Undecided names the first command without which nothing can be said: setup of the
// workspace as it is has to work, and a job that ended early says nothing.
func Undecided(before, after []Ran) (string, bool) {
	for _, r := range before {
		if r.Kind == Setup && r.Outcome != Passed || r.Outcome == NotRun {
			return r.Name, true
		}
	}
	fine := true // so far; what fails takes with it what comes after
	for _, r := range after {
		if fine && r.Outcome == NotRun || r.Kind == Apply && r.Outcome == TimedOut {
			return r.Name, true
		}
		if (r.Kind == Apply || r.Kind == Setup) && r.Outcome != Passed {
			fine = false
		}
	}
	return "", false
}
