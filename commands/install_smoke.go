package commands

import (
	"context"
	"fmt"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// smoke tests the sandboxes as `quavon doctor --sandbox-smoke` does in the directory of
// the installation: its runner makes the checks by itself, where jobs will run. Settings
// come from .env alone, as they do for the services.
func (o *installOptions) smoke(ctx context.Context, show phase.Reporter) error {
	p := *o.program
	values, err := envValues(o.target.Env())
	if err != nil {
		return err
	}
	p.LookupEnv = func(key string) (string, bool) {
		value := values(key)
		return value, value != ""
	}
	d := &doctorOptions{program: &p, Smoke: true, EnvFile: o.target.Env(), settings: newSettings(doctorSettings()...)}
	d.fromInstallation()
	checks := (&localSandbox{doctorOptions: d}).checks()
	defer d.runners(checks)()
	show.Status("testing what the sandboxes isolate")
	r := doctor.Run(ctx, checks, nil)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return smokeVerdict(r, show)
}

// smokeVerdict shows what was found. What could not be found out is no proof either.
func smokeVerdict(r *doctor.Report, show phase.Reporter) error {
	var first error
	for _, x := range r.Results {
		show.Line(fmt.Sprintf("%s %s: %s", x.Code, x.State, x.Message))
		if x.State != doctor.Fail && x.State != doctor.Error {
			continue
		}
		for _, d := range x.Details {
			show.Line("  - " + d)
		}
		if first == nil {
			first = fault.New(x.Code+": "+x.Message, x.Fix)
		}
	}
	return first
}
