package smoke

import (
	"fmt"
	"slices"
	"strings"
)

// Expect says what an attempt comes back with where the sandbox holds. Success is
// never among it, unless Open allows it.
type Expect struct {
	// Probe and Sub name the attempt.
	Probe, Sub string
	// Held are the known errors.
	Held []string
	// Broken are errors that already show a hole, besides success: the attempt came
	// too far.
	Broken []string
}

// expects is a judge of attempts that must fail, each in a known way: success is a
// hole, and an error that isn't known is none of either.
func expects(by map[Family][]Expect) func(*Case) Outcome {
	return func(c *Case) Outcome {
		list := by[c.Bench.Family()]
		if list == nil {
			return Outcome{CouldNotRun, fmt.Sprintf("what to expect of %s is not known", c.Bench.Backend)}
		}
		return c.attempts(list)
	}
}

func (c *Case) attempts(list []Expect) Outcome {
	var broken, unsure []string
	for _, e := range list {
		l := c.Find(e.Probe, e.Sub)
		switch {
		case l == nil:
			unsure = append(unsure, e.Sub+" is missing")
		case l.Errno == "" || slices.Contains(e.Broken, l.Errno):
			broken = append(broken, strings.TrimSpace(e.Sub+" succeeded "+l.Errno+" "+l.Answer))
		case !slices.Contains(e.Held, l.Errno):
			want := strings.Join(e.Held, " or ")
			unsure = append(unsure, fmt.Sprintf("%s came back with %s %s instead of %s", e.Sub, l.Errno, l.Answer, want))
		}
	}
	return verdict(broken, unsure)
}

// verdict sums up: a hole counts more than what could not be found out.
func verdict(broken, unsure []string) Outcome {
	switch {
	case len(broken) > 0:
		return Outcome{Broken, join(append(broken, unsure...))}
	case len(unsure) > 0:
		return Outcome{CouldNotRun, join(unsure)}
	}
	return Outcome{Verdict: Held}
}

// maxWhy bounds an explanation, part of which may come from the sandbox.
const maxWhy = 1 << 10

func join(parts []string) string {
	s := strings.Join(parts, "; ")
	return strings.ToValidUTF8(s[:min(len(s), maxWhy)], "")
}

// each expects the same errors of several attempts of a probe.
func each(probe string, held []string, subs ...string) []Expect {
	var out []Expect
	for _, s := range subs {
		out = append(out, Expect{Probe: probe, Sub: s, Held: held})
	}
	return out
}
