package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/smoke"
)

// smokeTest is the smoke test of a runner's sandboxes.
type smokeTest struct {
	runner *runner.Runner
	// image says what to run in; "" is the host's toolchain.
	image func(context.Context) (string, error)
	// identify says what of this host is tested.
	identify func(context.Context) (service.Identity, error)
	// service is told what came of tests on demand; nil has none.
	service *service.Service
}

// smokeTest is that of the runner: in the host's toolchain, or in the first image that
// is offered.
func (o *runnerOptions) smokeTest(r *runner.Runner, so *service.Options) *smokeTest {
	return &smokeTest{runner: r, identify: so.Identify, image: func(ctx context.Context) (string, error) {
		if why, ok := r.Backend.Policies()[sandbox.PolicyRootHost]; ok && why == sandbox.Enforced {
			return "", nil
		}
		offered, err := so.Images(ctx)
		if err == nil && len(offered) == 0 {
			err = errors.New("there is no image to run the probes in: pull one with `quavon images pull`")
		}
		if err != nil {
			return "", err
		}
		return offered[0], nil
	}}
}

// run makes the probes.
func (t *smokeTest) run(ctx context.Context, full bool) (*smoke.Report, error) {
	image, err := t.image(ctx)
	if err != nil {
		return nil, err
	}
	id, err := t.identify(ctx)
	if err != nil {
		return nil, err
	}
	return smoke.For(t.runner, image).Run(ctx, smoke.Options{Full: full, Root: os.Geteuid() == 0, Bound: id.Evidence})
}

// probe is the service's test: the quick set.
func (t *smokeTest) probe(ctx context.Context) (queue.Smoke, error) {
	report, err := t.run(ctx, false)
	if err != nil {
		return queue.Smoke{}, err
	}
	return smokeOf(report), nil
}

func smokeOf(r *smoke.Report) queue.Smoke {
	e := r.Evidence()
	s := queue.Smoke{Passed: e.Passed, Probes: len(r.Results), Failed: e.NotHeld, At: e.At}
	for _, x := range r.Results {
		if x.Verdict == smoke.Broken || x.Verdict == smoke.CouldNotRun {
			s.Why = append(s.Why, probeLine(x))
		}
	}
	return s
}

// probeLine is a probe's outcome.
func probeLine(x smoke.Result) string {
	line := fmt.Sprintf("%s %s: %s", x.ID, x.Verdict, x.Title)
	if x.Why != "" {
		line += ": " + x.Why
	}
	return line
}

// check makes the probes for a doctor. A service obeys what they say.
func (t *smokeTest) check(ctx context.Context, full bool) doctor.Finding {
	if t.service == nil {
		report, err := t.run(ctx, full)
		return smokeFinding(report, err)
	}
	var report *smoke.Report
	_, err := t.service.Retest(ctx, func(ctx context.Context) (_ queue.Smoke, err error) {
		if report, err = t.run(ctx, full); err != nil {
			return queue.Smoke{}, err
		}
		return smokeOf(report), nil
	})
	return smokeFinding(report, err)
}

// notRun lists what was left out, by why.
func notRun(r *smoke.Report) []string {
	by := map[string][]string{}
	for _, x := range r.NotRun {
		by[x.Why] = append(by[x.Why], x.ID)
	}
	var out []string
	for _, why := range slices.Sorted(maps.Keys(by)) {
		out = append(out, fmt.Sprintf("not run, %s: %s", why, strings.Join(by[why], ", ")))
	}
	return out
}

// smokeFinding is QD957's word on a report: anything but held or not applicable fails.
func smokeFinding(r *smoke.Report, err error) doctor.Finding {
	if err != nil || r == nil {
		return doctor.Unknown(errors.Join(errors.New("the probes could not be made"), err))
	}
	set := "quick set"
	if r.Full {
		set = "full set"
	}
	counts := fmt.Sprintf("%d of %d probes held, %d not applicable, %s, %.1f s", r.Count(smoke.Held), len(r.Results),
		r.Count(smoke.NotApplicable),
		set, r.Took.Round(100*time.Millisecond).Seconds())
	var bad, notes []string
	for _, x := range r.Results {
		switch x.Verdict {
		case smoke.Broken, smoke.CouldNotRun:
			bad = append(bad, probeLine(x))
		case smoke.NotApplicable:
			notes = append(notes, probeLine(x))
		case smoke.Held:
		}
	}
	notes = append(notes, notRun(r)...)
	if !r.Passed() {
		fix := "give this host no jobs; `quavon doctor --local --only QD957 --full` on it says more"
		if r.Count(smoke.Broken) == 0 {
			fix = "find out what kept them from running: " + strings.TrimSuffix(fix, " on it says more")
		}
		return doctor.Failed("escape smoke test failed: "+counts, fix, append(bad, notes...)...)
	}
	return doctor.Passed("escape smoke test passed: "+counts, notes...)
}
