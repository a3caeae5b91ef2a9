// Package smoke finds out whether a backend's sandboxes hold: it runs the probes of
// quavon-guest through the path of every job, looks at the sandbox from outside
// meanwhile, and judges what came back. A probe holds only when it was really made,
// its controls worked before and after, and every attempt failed in a way that is
// known for the runtime; everything else is broken or could not be run.
package smoke

import (
	"context"
	"strings"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
)

// Verdict is what became of a probe.
type Verdict string

// Verdicts. Only Held and NotApplicable let a smoke test pass.
const (
	Held          Verdict = "held"
	Broken        Verdict = "broken"
	NotApplicable Verdict = "not applicable"
	CouldNotRun   Verdict = "could not run"
	// notRun is of an entry that turns out to be among those that are left out.
	notRun Verdict = "not run"
)

// Group is what a probe is about.
type Group string

// Groups, in the order of docs/probes.md.
const (
	GroupIdentity   Group = "identity"
	GroupPrivilege  Group = "privilege"
	GroupFilesystem Group = "filesystem"
	GroupDevice     Group = "device"
	GroupNetwork    Group = "network"
	GroupCrossing   Group = "crossing"
	GroupLimits     Group = "limits"
	GroupControl    Group = "control"
	GroupTiming     Group = "timing"
)

// Family is what kind of kernel a sandbox has: it says which errors are known.
type Family string

// Families of backends.
const (
	GVisor Family = "gvisor"
	// Shared is the host's own kernel.
	Shared  Family = "shared"
	Machine Family = "machine"
)

// FamilyOf is the family that a backend claims to be of.
func FamilyOf(backend string) Family {
	switch {
	case strings.Contains(backend, "runsc"):
		return GVisor
	case backend == "qemu" || backend == "firecracker":
		return Machine
	}
	return Shared
}

// Entry is a probe of the catalogue.
type Entry struct {
	// ID is unique. The group's letter and number are those of docs/probes.md.
	ID    string
	Group Group
	// Title is the sentence that is true when the probe holds; Control says how it is
	// known that the probe can see.
	Title, Control string
	// Weak names the weakened sandboxes in which it must be broken.
	Weak []string
	// AsRoot names those in which it must be broken where jobs are meant to be root; nil
	// asks no other question of root than of others.
	AsRoot []string
	// Quick probes belong to the quick set.
	Quick bool
	// Skip says why it doesn't apply, by backend.
	Skip map[string]string

	// Inside are the probes of quavon-guest that it needs, in the sandbox that all
	// such entries share.
	Inside []string
	// Door says that its probes run in the other shared sandbox, whose step has a
	// network: the way out to one server.
	Door bool
	// Plant prepares the host before the sandbox starts, and adds to the input's
	// parameters. What it leaves is removed by Bench.Cleanup. nil needs nothing.
	Plant func(ctx context.Context, b *Bench) error
	// Watch looks at the live sandbox from outside; nil doesn't. What it finds broken,
	// or can't find out, is the entry's outcome.
	Watch func(ctx context.Context, b *Bench, live *Live) Outcome
	// Judge decides. It is called when every line has come and the workbench worked.
	Judge func(c *Case) Outcome
	// Alone runs an entry that needs sandboxes of its own, instead of the above.
	Alone func(ctx context.Context, b *Bench) Outcome
	// Root says that what is seen from outside is root's to see: as another user the
	// entry is listed as not run.
	Root bool
}

// Outcome is a verdict and why.
type Outcome struct {
	Verdict Verdict
	Why     string
}

// Case is what a judge has.
type Case struct {
	Entry *Entry
	Bench *Bench
	// Lines are the results of the entry's probes.
	Lines []probe.Line
	// Live is the sandbox, which has ended by now.
	Live *Live
}

// Find returns a result, nil when it isn't there.
func (c *Case) Find(id, sub string) *probe.Line {
	for i := range c.Lines {
		if c.Lines[i].Probe == id && c.Lines[i].Sub == sub {
			return &c.Lines[i]
		}
	}
	return nil
}

// Runner runs jobs: a *runner.Runner, or in tests a weakened sandbox that starts the
// step's program without an agent.
type Runner interface {
	Run(ctx context.Context, spec job.Spec, streams runner.Streams) (job.Result, error)
}

// Times of a smoke test.
const (
	// QuickTime bounds the quick set.
	QuickTime = time.Minute
	// sessionTime bounds one sandbox.
	sessionTime = 90 * time.Second
	// watchTime bounds what is looked at from outside.
	watchTime = 30 * time.Second
	// tickTime is between two looks at what comes from inside.
	tickTime = 10 * time.Millisecond
)
