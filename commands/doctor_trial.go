package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/smoke"
)

// trial is a job of the doctor's own. Its program is quavon-guest, as it is for the
// smoke test: no image needs a shell, or anything else, to be tried in.
type trial struct {
	// name is part of the job's id.
	name string
	// probes are quavon-guest's, none of them to do nothing.
	probes []string
	params map[string][]string
	limits job.Limits
	// hold is how long the program waits when it is done.
	hold time.Duration
	// allow lets the step out to these hosts; nil gives it no network.
	allow []string
}

// tried is what became of a trial.
type tried struct {
	job.Result
	// results are those of the probes, by what they tried; whole says that the program
	// has come to its end.
	results map[string]probe.Line
	whole   bool
	// out is all that the job has said.
	out string
}

// try runs a trial in root.
func (s *localSandbox) try(ctx context.Context, root job.Root, t trial) (tried, error) {
	in := probe.Input{Nonce: strings.ToLower(rand.Text()[:12]), Probes: t.probes, Params: t.params}
	doc, err := json.Marshal(in)
	if err != nil {
		return tried{}, err
	}
	if t.limits.Output == 0 {
		t.limits.Output = 1 << 20
	}
	step := job.Step{Argv: []string{smoke.Program, probe.Command}, Dir: "/"}
	if t.allow != nil {
		step.Network = job.NetworkRegistries
	}
	held, release := io.Pipe()
	timer := time.AfterFunc(t.hold, func() { _ = release.Close() }) // it never fails
	defer timer.Stop()
	var out, errOut bytes.Buffer
	lines := smoke.NewReader(in.Nonce, in.Probes)
	res, err := s.runner.Run(ctx, job.Spec{
		ID:   fmt.Sprintf("doctor-%s-%d", t.name, time.Now().UnixNano()),
		Root: root, Allow: t.allow, Limits: t.limits, Steps: []job.Step{step},
	}, runner.Streams{
		Stdin: io.MultiReader(bytes.NewReader(append(doc, '\n')), held), Stdout: io.MultiWriter(&out, lines), Stderr: &errOut,
	})
	_ = held.Close() // so the job's input has an end in any case
	got := tried{Result: res, results: map[string]probe.Line{}, out: out.String() + errOut.String()}
	if err != nil {
		return got, err
	}
	// A limit may cut the stream anywhere.
	results, whole, err := lines.Cut()
	got.whole = whole
	for _, l := range results {
		got.results[l.Sub] = l
	}
	return got, err
}

// root is what this backend's tests run in, all of them in the same: the host's toolchain
// where it can be shown, else an image; inImage names that in a finding.
func (s *localSandbox) root(ctx context.Context) (root job.Root, inImage string, err error) {
	digest, err := s.rootImage(ctx)
	if err != nil || digest == "" {
		return job.Root{Kind: job.RootHost}, "", err
	}
	return job.Root{Kind: job.RootImage, Image: digest}, "in the image " + s.imageName(digest), nil
}

// rootImage is the digest of that image, "" for the host's toolchain. A runner that
// looks at itself has chosen one for its smoke test.
func (s *localSandbox) rootImage(ctx context.Context) (string, error) {
	if s.test != nil {
		return s.test.image(ctx)
	}
	if why, ok := s.runner.Backend.Policies()[sandbox.PolicyRootHost]; ok && why == sandbox.Enforced {
		return "", nil
	}
	return s.anyImage(ctx)
}

// anyImage is the first of the lock, in its order, that the backend has.
func (s *localSandbox) anyImage(ctx context.Context) (string, error) {
	l, err := s.readLock()
	if err != nil {
		return "", err
	}
	if l == nil || len(pinned(l)) == 0 {
		return "", fault.New("the backend runs images of a lock only, and there is none here for this platform",
			"name a lock with QUAVON_SANDBOX_IMAGES_FILE, or make one with `quavon build images`")
	}
	var first error
	for _, digest := range pinned(l) {
		err := s.has(ctx, digest)
		if err == nil {
			return digest, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

// has fails when jobs can't have an image here.
func (s *localSandbox) has(ctx context.Context, digest string) error {
	if d := sandbox.AsDetached(s.runner.Backend); d != nil {
		_, err := d.FindImage(ctx, digest)
		return err
	}
	store, err := s.images()
	if err == nil {
		_, err = store.Find(digest)
	}
	return err
}

// imageName is an image as the lock calls it, else its digest.
func (s *localSandbox) imageName(digest string) string {
	l, err := s.readLock()
	if err != nil || l == nil {
		return digest
	}
	for img, p := range l.On(source.Host()) {
		if p.Config == digest {
			return img.Name
		}
	}
	return digest
}

func (s *localSandbox) hello(ctx context.Context) doctor.Finding {
	start := time.Now()
	root, inImage, err := s.root(ctx)
	if err != nil {
		return failedOn(err)
	}
	got, err := s.try(ctx, root, trial{name: "hello", limits: job.Limits{Wall: time.Minute}})
	where := strings.TrimRight(fmt.Sprintf("%s %s", got.Sandbox.Runtime, inImage), " ")
	switch {
	case err != nil:
		f := failedOn(err)
		f.Fix = strings.TrimPrefix(f.Fix+"; `quavon run -- echo hello` says more", "; ")
		return triedIn(inImage, f)
	case got.Reason != "" || got.Exit != 0 || !got.whole:
		return doctor.Failed(fmt.Sprintf("a job that says hello ended with %d (%s) on %s and said %.300q", got.Exit, got.Reason, where,
			got.out), "")
	case got.Sandbox.Backend != s.runner.Backend.Name():
		return doctor.Failed(fmt.Sprintf("the job ran on %q", got.Sandbox.Backend), "")
	}
	return doctor.Passed(fmt.Sprintf("a job said hello in %d ms on %s", time.Since(start).Milliseconds(), where))
}

// triedIn says in which image something was found, if it was in one.
func triedIn(inImage string, f doctor.Finding) doctor.Finding {
	if inImage != "" {
		f.Details = append(f.Details, "tried "+inImage)
	}
	return f
}
