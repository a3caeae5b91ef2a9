package smoke

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// Suite is what is tested and with what.
type Suite struct {
	Runner Runner
	// Backend is the name whose promises are tested.
	Backend  string
	Policies sandbox.Policies
	// Guest is the host path of quavon-guest.
	Guest string
	// Binary is the host path of the runtime, "" when it isn't known.
	Binary string
	// Locate lists the host's processes of a sandbox; nil can't.
	Locate func(ctx context.Context, id string) ([]int, error)
	// Image is a digest to run in; "" is the host's toolchain, where it can be shown.
	Image string
	// User says who a job in a root is meant to run as.
	User func(ctx context.Context, in job.Root) (image.User, error)
	// World is what must not be reached, nil for one of the test's own. It is given where a
	// weakened sandbox is on its network.
	World *World
	// WithDoor is Runner with another way out, where it is no *runner.Runner.
	WithDoor func(runner.Door) Runner
	// TempDir holds what is put on the host; "" is the system's place.
	TempDir string
}

// Options choose what is run.
type Options struct {
	// Full runs every probe, not only the quick ones.
	Full bool
	// Root says that what only root can see is looked at; a caller who isn't root
	// leaves it out.
	Root bool
	// Only names entries; nil is all of the set.
	Only []string
	// Bound is what is tested, as of before.
	Bound evidence.Bound
}

// Run makes the probes. The error says that none could be made.
func (s *Suite) Run(ctx context.Context, o Options) (*Report, error) {
	start := time.Now()
	digest, err := disk.Digest(s.Guest)
	if err != nil {
		return nil, err
	}
	b, err := s.bench(ctx)
	if err != nil {
		return nil, err
	}
	b.bound = o.Bound
	r := &Report{
		Version: Version, Nonce: b.Nonce, Backend: s.Backend, Full: o.Full, Guest: digest, Started: start, Bound: o.Bound,
	}
	if !o.Full && o.Only == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, QuickTime, errors.New("the quick set's time is over"))
		defer cancel()
	}
	entries, notRun := choose(s.Backend, o)
	r.NotRun = notRun
	r.Results = b.all(ctx, entries, r)
	r.Took = time.Since(start)
	if err := b.close(); err != nil {
		return r, fmt.Errorf("clean up after the probes: %w", err)
	}
	return r, nil
}

// choose sorts out what is run.
func choose(backend string, o Options) (run []Entry, left []NotRun) {
	for _, e := range Catalogue() {
		switch {
		case o.Only != nil && !slices.Contains(o.Only, e.ID):
			left = append(left, NotRun{e.ID, "not asked for"})
		case o.Only == nil && !o.Full && !e.Quick:
			left = append(left, NotRun{e.ID, "not in the quick set: use --full"})
		case e.Root && !o.Root && e.Skip[backend] == "":
			left = append(left, NotRun{e.ID, "needs root on the host"})
		default:
			run = append(run, e)
		}
	}
	return run, left
}

// bench prepares the host for a test.
func (s *Suite) bench(ctx context.Context) (*Bench, error) {
	dir, release, err := ownDir(s.TempDir)
	if err != nil {
		return nil, err
	}
	b := &Bench{
		Suite: s, Nonce: strings.ToLower(rand.Text()[:12]), Dir: dir, Workspace: dir + "/workspace",
		Params: map[string][]string{}, release: release, root: job.Root{Kind: job.RootHost}, limits: s.limits(),
	}
	if s.Image != "" || s.Policies[sandbox.PolicyRootHost] != sandbox.Enforced || !has(s.Policies, sandbox.PolicyRootHost) {
		b.root = job.Root{Kind: job.RootImage, Image: s.Image}
		if s.Image == "" {
			err = errors.New("the backend runs images only, and there is none to run the probes in")
		}
	}
	if err == nil {
		b.user, err = s.User(ctx, b.root)
	}
	if err == nil {
		// Whoever finds the directory may use it: that is what the probes try.
		err = errors.Join(os.Chmod(dir, 0o711), os.Mkdir(b.Workspace, 0o755), os.Chmod(b.Workspace, 0o755))
	}
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return b, nil
}

func has(p sandbox.Policies, name sandbox.Policy) bool { _, ok := p[name]; return ok }

// limits are those that the backend enforces, as jobs have them.
func (s *Suite) limits() job.Limits {
	l := job.Limits{Output: 4 << 20, Wall: sessionTime}
	for p, set := range map[sandbox.Policy]func(){
		sandbox.PolicyMemory: func() { l.Memory = 512 << 20 },
		sandbox.PolicyPids:   func() { l.Pids = 128 },
		sandbox.PolicyDisk:   func() { l.Disk = 64 << 20 },
	} {
		if has(s.Policies, p) && s.Policies[p] == sandbox.Enforced {
			set()
		}
	}
	return l
}

// all runs the entries: those that share a sandbox first, the others one by one.
func (b *Bench) all(ctx context.Context, entries []Entry, r *Report) []Result {
	outcomes := b.shared(ctx, entries, r, false)
	maps.Copy(outcomes, b.shared(ctx, entries, r, true))
	var out []Result
	for _, e := range entries {
		x := Result{ID: e.ID, Group: e.Group, Title: e.Title}
		o, ok := outcomes[e.ID]
		switch {
		case e.Skip[b.Backend] != "":
			o = shared{Outcome: Outcome{NotApplicable, e.Skip[b.Backend]}}
		case e.Alone != nil:
			o = shared{Outcome: e.Alone(ctx, b)}
		case !ok:
			o = shared{Outcome: Outcome{CouldNotRun, "it has neither probes nor a run of its own"}}
		}
		if o.Verdict == notRun {
			r.NotRun = append(r.NotRun, NotRun{e.ID, o.Why})
			continue
		}
		x.Verdict, x.Why, x.Tried = o.Verdict, o.Why, o.lines
		out = append(out, x)
	}
	return out
}

// shared is an outcome in the shared sandbox.
type shared struct {
	Outcome
	lines []probe.Line
}

// shared runs the entries that share a sandbox: the one with a door, or the one
// without.
func (b *Bench) shared(ctx context.Context, entries []Entry, r *Report, door bool) map[string]shared {
	var in []Entry
	s := Session{Name: "shared"}
	out := map[string]shared{}
	for _, e := range entries {
		if e.Alone != nil || e.Skip[b.Backend] != "" || e.Door != door {
			continue
		}
		if e.Plant != nil {
			if err := e.Plant(ctx, b); err != nil {
				out[e.ID] = shared{Outcome: Outcome{CouldNotRun, "can't prepare the host: " + err.Error()}}
				continue
			}
		}
		in = append(in, e)
		for _, id := range e.Inside {
			if !slices.Contains(s.Inside, id) {
				s.Inside = append(s.Inside, id)
			}
		}
	}
	if len(in) == 0 {
		return out
	}
	if door {
		s.Name, s.Door, s.Allow = "door", b.door, allowed
	}
	s.Watch = func(ctx context.Context, live *Live) error {
		for _, e := range in {
			if e.Watch != nil {
				live.note(e.ID, e.Watch(ctx, b, live))
			}
		}
		return nil
	}
	lines, live, err := b.Run(ctx, s)
	r.Runtime = live.Result.Sandbox.Runtime
	for _, e := range in {
		own := linesOf(lines, e.Inside)
		if err != nil {
			out[e.ID] = shared{Outcome{CouldNotRun, err.Error()}, own}
			continue
		}
		out[e.ID] = shared{e.judge(&Case{Entry: &e, Bench: b, Lines: own, Live: live}), own}
	}
	return out
}

func linesOf(lines []probe.Line, ids []string) []probe.Line {
	var out []probe.Line
	for _, l := range lines {
		if slices.Contains(ids, l.Probe) {
			out = append(out, l)
		}
	}
	return out
}

// judge checks the controls before it asks the entry.
func (e *Entry) judge(c *Case) Outcome {
	for _, id := range e.Inside {
		for _, sub := range []string{probe.SubBefore, probe.SubAfter} {
			l := c.Find(id, sub)
			if l == nil {
				return Outcome{CouldNotRun, id + " did not come to its " + sub}
			}
			if l.Errno != "" {
				return Outcome{CouldNotRun, id + ": " + sub + " failed: " + l.Errno + " " + l.Answer}
			}
		}
	}
	o := e.Judge(c)
	if e.Watch == nil || o.Verdict == Broken {
		return o
	}
	if w := c.Live.seen(e.ID); w.Verdict != Held {
		return w
	}
	return o
}
