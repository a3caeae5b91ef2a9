package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func check(code string, run func(context.Context) Finding, needs ...string) *Check {
	return &Check{
		Code: code, Name: strings.ToLower(code), Title: code, Group: "test", Severity: Failure, DefaultFix: "mend it",
		Needs: needs, Run: run,
	}
}

func says(f Finding) func(context.Context) Finding {
	return func(context.Context) Finding { return f }
}

func TestStatesAndExitCodes(t *testing.T) {
	t.Parallel()
	pass, warn, fail := says(Passed("ok")), says(Warned("so so", "")), says(Failed("bad", ""))
	unknown, skip := says(Unknown(errors.New("no idea"))), says(Skipped("not here"))
	for _, c := range []struct {
		name   string
		runs   []func(context.Context) Finding
		strict bool
		ignore []string
		want   ExitCode
	}{
		{"all pass", []func(context.Context) Finding{pass, skip}, false, nil, ExitOK},
		{"a warning", []func(context.Context) Finding{pass, warn}, false, nil, ExitOK},
		{"a strict warning", []func(context.Context) Finding{pass, warn}, true, nil, ExitFail},
		{"a failure", []func(context.Context) Finding{pass, fail}, false, nil, ExitFail},
		{"an error", []func(context.Context) Finding{pass, unknown}, false, nil, ExitUnknown},
		{"a failure and an error", []func(context.Context) Finding{unknown, fail}, false, nil, ExitFail},
		{"an ignored failure", []func(context.Context) Finding{pass, fail}, false, []string{"QD901"}, ExitOK},
		{"an ignored error", []func(context.Context) Finding{pass, unknown}, false, []string{"qd901"}, ExitOK},
		{"nothing was found out", []func(context.Context) Finding{skip, skip}, false, nil, ExitUnknown},
		{"a check without a state", []func(context.Context) Finding{says(Finding{})}, false, nil, ExitUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var checks []*Check
			for i, run := range c.runs {
				checks = append(checks, check([]string{"QD900", "QD901"}[i], run))
			}
			ignore, err := Ignore(checks, c.ignore)
			if err != nil {
				t.Fatal(err)
			}
			r := Run(t.Context(), checks, ignore)
			r.Strict = c.strict
			if got := r.ExitCode(); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

// TestEssential doesn't let the rest stand for what was asked for and not found out.
func TestEssential(t *testing.T) {
	t.Parallel()
	pass, skip, warn := Passed("ok"), Skipped("needs QD951"), Warned("so so", "")
	for _, c := range []struct {
		name   string
		state  Finding
		want   ExitCode
		proven bool
	}{
		{"passed", pass, ExitOK, true},
		{"left out by what it needs", skip, ExitUnknown, false},
		{"neither yes nor no", warn, ExitOK, false},
		{"failed", Failed("bad", ""), ExitFail, false},
		{"could not be found out", Unknown(errors.New("no idea")), ExitUnknown, false},
	} {
		e := check("QD957", says(c.state))
		e.Essential = true
		r := Run(t.Context(), []*Check{check("QD901", says(pass)), e}, map[string]bool{"QD957": true})
		if r.ExitCode() != c.want || r.Proven() != c.proven {
			t.Errorf("%s: exit code %d, proven %t", c.name, r.ExitCode(), r.Proven())
		}
	}
	if r := Run(t.Context(), []*Check{check("QD901", says(pass))}, nil); r.Proven() || r.ExitCode() != ExitOK {
		t.Error("what wasn't asked for is proven")
	}
}

func TestDependents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first Finding
		want  State
		why   string
	}{
		{Passed("ok"), Pass, ""},
		{Warned("so so", ""), Pass, ""},
		{Failed("bad", ""), Skip, "which failed"},
		{Unknown(errors.New("no idea")), Skip, "could not be made"},
		{Skipped("no Docker here"), Skip, "no Docker here"},
	} {
		checks := []*Check{check("QD902", says(Passed("second")), "QD901"), check("QD901", says(c.first))}
		r := Run(t.Context(), checks, nil)
		if got := r.Results[0]; got.State != c.want || !strings.Contains(got.Message, c.why) {
			t.Errorf("after %s: %s %q, want %s %q", c.first.State, got.State, got.Message, c.want, c.why)
		}
	}
}

func TestSeverityFixAndPanic(t *testing.T) {
	t.Parallel()
	soft := check("QD901", says(Failed("bad", "")))
	soft.Severity = Warning
	wild := check("QD902", func(context.Context) Finding { panic("oh") })
	own := check("QD903", says(Failed("bad", "type this")))
	r := Run(t.Context(), []*Check{soft, wild, own}, nil)
	if got := r.Results[0]; got.State != Warn || got.Fix != "mend it" {
		t.Errorf("a soft failure: %s, fix %q", got.State, got.Fix)
	}
	if got := r.Results[1]; got.State != Error || !strings.Contains(got.Message, "oh") || len(got.Details) == 0 {
		t.Errorf("a panic: %s %q", got.State, got.Message)
	}
	if got := r.Results[2]; got.State != Fail || got.Fix != "type this" {
		t.Errorf("own fix: %s, fix %q", got.State, got.Fix)
	}
}

func TestTimeKeepsItsCause(t *testing.T) {
	t.Parallel()
	polite := func(ctx context.Context) Finding { <-ctx.Done(); return Unknown(ctx.Err()) }
	deaf := func(context.Context) Finding { time.Sleep(time.Hour); return Passed("late") }
	synctest.Test(t, func(t *testing.T) {
		for _, run := range []func(context.Context) Finding{polite, deaf} {
			c := check("QD901", run)
			c.Timeout = 3 * time.Second
			r := Run(t.Context(), []*Check{c}, nil)
			if got := r.Results[0]; got.State != Error || got.Message != "no answer within 3s" || got.Took != c.Timeout ||
				!strings.Contains(got.Fix, "`quavon doctor --only QD901`") {
				t.Errorf("%s %q after %s, fix %q", got.State, got.Message, got.Took, got.Fix)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrWaited)
			r = Run(ctx, []*Check{c}, nil)
			cancel()
			if got := r.Results[0]; !errors.Is(got.Err, ErrWaited) || r.ExitCode() != ExitUnknown || !strings.Contains(got.Fix, "--wait") {
				t.Errorf("waited: %v, exit %d, fix %q", got.Err, r.ExitCode(), got.Fix)
			}
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, stop)
			r = Run(ctx, []*Check{c}, nil)
			if got := r.Results[0]; got.Message != "interrupted" || r.ExitCode() != ExitInterrupted {
				t.Errorf("interrupted: %q, exit %d", got.Message, r.ExitCode())
			}
		}
		time.Sleep(2 * time.Hour) // the deaf ones end
	})
}

// A check that was cut off has time to take away what it made, and not more.
func TestCleanup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := false
		tidy := check("QD901", func(ctx context.Context) Finding {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			gone = true
			return Passed("late")
		})
		deaf := check("QD902", func(context.Context) Finding { time.Sleep(time.Hour); return Passed("late") })
		tidy.Timeout, deaf.Timeout = time.Second, time.Second
		tidy.Cleanup, deaf.Cleanup = 10*time.Second, 10*time.Second
		for c, took := range map[*Check]time.Duration{tidy: 3 * time.Second, deaf: 11 * time.Second} {
			r := Run(t.Context(), []*Check{c}, nil)
			if got := r.Results[0]; got.State != Error || got.Message != "no answer within 1s" || got.Took != took {
				t.Errorf("%s: %s %q after %s", c.Code, got.State, got.Message, got.Took)
			}
		}
		if !gone {
			t.Error("the check was not waited for")
		}
		time.Sleep(2 * time.Hour) // the deaf one ends
	})
}

func TestLevelsRunTogether(t *testing.T) {
	t.Parallel()
	meet := make(chan struct{})
	a := check("QD901", func(context.Context) Finding { meet <- struct{}{}; return Passed("") })
	b := check("QD902", func(context.Context) Finding { <-meet; return Passed("") })
	if r := Run(t.Context(), []*Check{a, b}, nil); r.ExitCode() != ExitOK {
		t.Errorf("one after the other: %+v", r.Results)
	}
}

func TestSelectAndIgnore(t *testing.T) {
	t.Parallel()
	a, b, c := check("QD901", says(Passed(""))), check("QD902", says(Passed("")), "QD901"), check("QD957", says(Passed("")))
	c.Essential = true
	checks := []*Check{a, b, c}
	got, err := Select(checks, []string{"qd902"})
	if err != nil || !slices.Equal(got, []*Check{a, b}) {
		t.Errorf("selected %v, %v", got, err)
	}
	if _, err := Select(checks, []string{"QD999"}); err == nil {
		t.Error("an unknown check was selected")
	}
	if _, err := Ignore(checks, []string{"QD957"}); err == nil {
		t.Error("QD957 was ignored")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := func() []*Check {
		return []*Check{check("QD901", says(Passed(""))), check("QD902", says(Passed("")), "QD901")}
	}
	if err := Validate(good()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func([]*Check){
		"a code twice":  func(c []*Check) { c[1].Code = c[0].Code },
		"no code":       func(c []*Check) { c[0].Code = "X1" },
		"a circle":      func(c []*Check) { c[0].Needs = []string{"QD902"} },
		"a missing one": func(c []*Check) { c[0].Needs = []string{"QD903"} },
		"no fix":        func(c []*Check) { c[0].DefaultFix = "" },
		"no severity":   func(c []*Check) { c[0].Severity = "" },
	} {
		c := good()
		spoil(c)
		if Validate(c) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}
