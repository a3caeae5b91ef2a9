package commands

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox/docker"
)

// comparison makes the checks of sandboxes for each backend, one after the other, and
// shows them side by side. Backends that don't isolate are left out: what they do to a
// host's trust is known.
type comparison struct {
	o    *doctorOptions
	once sync.Once
	// reports are those of the backends, in the order of names.
	names   []string
	reports []*doctor.Report
}

// comparisonTime bounds all backends together.
const comparisonTime = 30 * time.Minute

// bind makes the checks those of all backends.
func (c *comparison) bind(checks []*doctor.Check) {
	for _, x := range checks {
		code := x.Code
		x.Needs, x.Timeout = nil, comparisonTime
		x.Run = func(ctx context.Context) doctor.Finding {
			c.once.Do(func() { c.run(ctx) })
			return doctor.Together("backend", c.parts(code))
		}
	}
}

func (c *comparison) run(ctx context.Context) {
	for _, name := range backendNames {
		if name == docker.Runc || name == docker.Privileged {
			continue
		}
		o := *c.o
		o.Backend = name
		checks := (&localSandbox{doctorOptions: &o}).checks()
		if only, err := doctor.Select(checks, ownCodes(checks, o.Only)); err == nil {
			checks = only
		}
		c.names = append(c.names, name)
		c.reports = append(c.reports, doctor.Run(ctx, checks, nil))
	}
}

// ownCodes are those of names that are among checks.
func ownCodes(checks []*doctor.Check, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, err := doctor.Find(checks, name)
		return err != nil
	})
}

// parts are what was found of each backend. One that can't be used here is skipped: it
// is no fault of the others.
func (c *comparison) parts(code string) []doctor.Part {
	var parts []doctor.Part
	for i, r := range c.reports {
		for _, x := range r.Results {
			if x.Code != code {
				continue
			}
			f := x.Finding
			if code == "QD951" && f.State == doctor.Fail {
				f = doctor.Skipped("it can't be used here: " + f.Message)
			}
			parts = append(parts, doctor.Part{Subject: c.names[i], Finding: f})
		}
	}
	return parts
}
