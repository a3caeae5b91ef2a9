package smoke

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// Program is the first word of the step that runs the probes: quavon-guest by the
// path that its own process has it by, since a job can't look into the agent's
// directory.
const Program = "/proc/self/exe"

// Session is one sandbox to be started.
type Session struct {
	// Name ends the job's id.
	Name string
	// Inside are the probes to make, with the bench's parameters and these.
	Inside []string
	Params map[string][]string
	// Dir is where the step starts; "" is the workspace.
	Dir string
	// Limits replace the suite's; nil leaves them.
	Limits *job.Limits
	// Mounts are shown besides the workspace.
	Mounts []job.Mount
	// Door lets the step out to what Allow says; nil gives it no network.
	Door  runner.Door
	Allow []string
	// Watch is called while the sandbox is there, once the probes have started; they
	// have their end after it has returned. nil doesn't wait.
	Watch func(ctx context.Context, live *Live) error
}

// Live is a sandbox while its probes run, and what became of it.
type Live struct {
	// Job is the id of its job.
	Job   string
	lines func() []probe.Line
	// Result is there at the end.
	Result job.Result

	mu    sync.Mutex
	found map[string]Outcome
}

// note keeps what an entry's Watch has found.
func (l *Live) note(id string, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[id] = o
}

// seen is what an entry's Watch has found.
func (l *Live) seen(id string) Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.found[id]
	if !ok {
		return Outcome{CouldNotRun, "nothing was looked at from outside"}
	}
	return o
}

// until waits until a probe was made, or for ctx.
func (l *Live) until(ctx context.Context, id string) {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for (&Case{Lines: l.Lines()}).Find(id, probe.SubAfter) == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Lines are the results that have come so far.
func (l *Live) Lines() []probe.Line { return l.lines() }

// Run starts a sandbox, makes the probes in it and ends it. The error says that the
// run isn't whole; what came is returned with it.
func (b *Bench) Run(ctx context.Context, s Session) ([]probe.Line, *Live, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sessionTime, errors.New("the sandbox's time is over"))
	defer cancel()
	out := NewReader(b.Nonce, s.Inside)
	live := &Live{Job: b.jobID(s.Name), lines: out.SoFar, found: map[string]Outcome{}}
	doc, err := b.input(s)
	if err != nil {
		return nil, live, err
	}
	in, release := io.Pipe()
	watched := make(chan error, 1)
	go func() { watched <- b.watch(ctx, s, live, out, release) }()
	var errOut limitedText
	run, err := b.runnerWith(s.Door)
	if err != nil {
		return nil, live, err
	}
	res, err := run.Run(ctx, b.spec(s, live.Job), runner.Streams{
		Stdin: io.MultiReader(bytes.NewReader(doc), in), Stdout: out, Stderr: &errOut,
	})
	cancel()
	_ = in.Close()
	watchErr := <-watched
	live.Result = res
	if err != nil {
		return out.SoFar(), live, err
	}
	lines, err := out.Whole()
	if err != nil {
		err = fmt.Errorf("%w (the job ended with %d, %s %s %.300q)", err, res.Exit, res.Reason, res.Message, errOut.b.String())
		return out.SoFar(), live, err
	}
	return lines, live, watchErr
}

// watch lets the probes go on to their end when all has been looked at.
func (b *Bench) watch(ctx context.Context, s Session, live *Live, out *Reader, release io.Closer) error {
	defer func() { _ = release.Close() }()
	if s.Watch == nil {
		return nil
	}
	select {
	case <-out.started:
	case <-ctx.Done():
		return nil // the run says it better
	}
	ctx, cancel := context.WithTimeoutCause(ctx, watchTime, errors.New("looking from outside took too long"))
	defer cancel()
	return s.Watch(ctx, live)
}

func (b *Bench) jobID(name string) string { return "smoke-" + b.Nonce + "-" + name }

func (b *Bench) input(s Session) ([]byte, error) {
	in := probe.Input{Nonce: b.Nonce, Probes: s.Inside, Params: map[string][]string{}}
	for _, params := range []map[string][]string{b.Params, s.Params} {
		for k, v := range params {
			in.Params[k] = v
		}
	}
	doc, err := json.Marshal(in)
	if err == nil && len(doc) >= probe.MaxInput {
		err = fmt.Errorf("the input has %d bytes", len(doc))
	}
	return append(doc, '\n'), err
}

func (b *Bench) spec(s Session, id string) job.Spec {
	spec := job.Spec{
		ID: id, Root: b.root, Limits: b.limits,
		Mounts: append([]job.Mount{{Source: b.Workspace, Target: job.WorkspaceDir, Mode: job.MountOverlay}}, s.Mounts...),
		Steps:  []job.Step{{Argv: []string{Program, probe.Command}, Dir: cmp.Or(s.Dir, job.WorkspaceDir)}},
	}
	if s.Door != nil {
		spec.Steps[0].Network, spec.Allow = job.NetworkRegistries, s.Allow
	}
	if s.Limits != nil {
		spec.Limits = b.enforced(*s.Limits)
	}
	return spec
}

// enforced leaves out the limits that the backend refuses to be asked for.
func (b *Bench) enforced(l job.Limits) job.Limits {
	for p, drop := range map[sandbox.Policy]func(){
		sandbox.PolicyMemory: func() { l.Memory = 0 }, sandbox.PolicyPids: func() { l.Pids = 0 },
		sandbox.PolicyCPU: func() { l.CPUs = 0 }, sandbox.PolicyDisk: func() { l.Disk = 0 },
	} {
		if !has(b.Policies, p) || b.Policies[p] != sandbox.Enforced {
			drop()
		}
	}
	return l
}

// limitedText keeps the beginning of what is written.
type limitedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *limitedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4 << 10
	l.b.Write(p[:min(len(p), max(0, most-l.b.Len()))])
	return len(p), nil
}
