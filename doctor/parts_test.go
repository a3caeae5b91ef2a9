package doctor

import (
	"errors"
	"testing"
)

func TestTogether(t *testing.T) {
	t.Parallel()
	part := func(subject string, f Finding) Part { return Part{subject, f} }
	pass, skip := part("a", Passed("fine")), part("b", Skipped("not here"))
	warn, fail := part("c", Warned("so so", "mend c")), part("d", Failed("bad", "mend d", "why"))
	unknown := part("e", Unknown(errors.New("no idea")))
	for name, c := range map[string]struct {
		parts   []Part
		state   State
		message string
		fix     string
	}{
		"none":     {nil, Error, "there is no runner to look at", ""},
		"one":      {[]Part{fail}, Fail, "d: bad", "mend d"},
		"all":      {[]Part{pass, skip, warn, fail, unknown}, Fail, "of 5 runners: 1 fail, 1 error, 1 warn, 1 pass, 1 skip", "mend d"},
		"unknown":  {[]Part{pass, unknown, warn}, Error, "of 3 runners: 1 error, 1 warn, 1 pass", ""},
		"warning":  {[]Part{pass, warn, pass}, Warn, "of 3 runners: 1 warn, 2 pass", "mend c"},
		"skipped":  {[]Part{skip, pass}, Pass, "of 2 runners: 1 pass, 1 skip", ""},
		"all skip": {[]Part{skip, skip}, Skip, "of 2 runners: 2 skip", ""},
	} {
		if f := Together("runner", c.parts); f.State != c.state || f.Message != c.message || f.Fix != c.fix {
			t.Errorf("%s: %s %q, fix %q", name, f.State, f.Message, f.Fix)
		}
	}
}
