package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/service"
)

// probesTime bounds the full set of probes.
const probesTime = 10 * time.Minute

// cleanupTime is for a check that was cut off to end its sandbox, and to remove what it
// has put on the host.
const cleanupTime = 15 * time.Second

const groupSandbox = "Sandbox"

// localSandbox is the checks QD951 to QD958 of a backend of this host.
type localSandbox struct {
	*doctorOptions
	runner *runner.Runner
	// test is the smoke test of a runner that looks at itself, store its images.
	test  *smokeTest
	store *image.Store
}

func (s *localSandbox) checks() []*doctor.Check {
	if s.runner != nil { // now, since QD951 opens a backend while QD953 looks at images
		s.store = s.runner.Images
	}
	check := func(code, name, title, fix string, run func(context.Context) doctor.Finding, needs ...string) *doctor.Check {
		return &doctor.Check{
			Code: code, Name: name, Title: title, Group: groupSandbox, Severity: doctor.Failure, DefaultFix: fix, Needs: needs,
			Run: run, Timeout: 2 * time.Minute, Cleanup: cleanupTime,
		}
	}
	smoke := check("QD957", "escape", "the probes could not get out of the sandbox",
		"give this host no jobs until it passes: see docs/probes.md",
		s.probes, "QD952")
	smoke.Essential, smoke.Timeout = true, probesTime
	return []*doctor.Check{
		check("QD951", "backend", "a backend says what it is", "see docs/backends.md for what it needs", s.backend),
		check("QD952", "runtime", "the runtime really runs jobs", "run `quavon run -- echo hello`, which says more", s.hello, "QD951"),
		check("QD953", "lock", "images are what the lock says", "run `quavon images verify`, then `quavon build images`", s.lock),
		check("QD954", "keys", "keys and rights at Valkey are right", "leave --local out", s.needsQueue),
		check("QD955", "separation", "the runner's host isn't the control plane's", "leave --local out", s.needsQueue),
		check("QD956", "egress", "sandboxes reach what is allowed and nothing else", "see docs/egress.md", s.egress, "QD952"),
		smoke,
		check("QD958", "limits", "limits end a job",
			"see what is missing: `quavon doctor --only QD903`; docs/reasons.md says how jobs end", s.limits, "QD952"),
	}
}

// needsQueue is the finding of checks that are about a queue.
func (s *localSandbox) needsQueue(context.Context) doctor.Finding {
	if s.Local {
		return doctor.Skipped("--local asks no queue")
	}
	return doctor.Unknown(errNoRunners)
}

var errNoRunners = errors.New("asking the runners of a queue is not built yet: use --local for a backend of this host")

// probes makes the escape probes: by the runner's own test where one looks at itself.
func (s *localSandbox) probes(ctx context.Context) doctor.Finding {
	t := s.test
	if t == nil {
		subject := service.Subject{Backend: s.runner.Backend, Guest: s.runner.Guest, Lock: s.lockFile()}
		t = &smokeTest{
			runner: s.runner, identify: subject.Identify, image: s.rootImage,
		}
	}
	f := s.withControls(ctx, t.check(ctx, s.Full))
	if _, inImage, err := s.root(ctx); err == nil {
		f = triedIn(inImage, f)
	}
	return f
}

// backend opens the backend and keeps it for the checks after it.
func (s *localSandbox) backend(ctx context.Context) doctor.Finding {
	if !s.Local {
		return doctor.Unknown(errNoRunners)
	}
	r, err := s.open()
	if err != nil {
		return failedOn(err)
	}
	if err := r.Backend.Check(ctx); err != nil {
		return failedOn(err)
	}
	b := sandbox.AsIdentified(r.Backend)
	if b == nil {
		return doctor.Unknown(fmt.Errorf("the backend %s doesn't say what its runtime is", r.Backend.Name()))
	}
	rt, err := b.Runtime(ctx)
	if err != nil {
		return failedOn(err)
	}
	text := fmt.Sprintf("backend %s, runtime %s", r.Backend.Name(), rt.Version)
	if rt.Platform != "" {
		text += ", platform " + rt.Platform
	}
	if s.runner == nil { // that of a runner that looks at itself is read by checks beside this one
		s.runner = r
	}
	details := []string{"digest " + rt.Digest, "arguments " + strings.Join(rt.Args, " ")}
	if s.Backend == docker.Runc || s.Backend == docker.Privileged {
		return doctor.Warned(text+": it shares the host's kernel and isolates nothing from its holes", "use --backend runsc", details...)
	}
	return doctor.Passed(text, details...)
}

func failedOn(err error) doctor.Finding {
	f := doctor.Unknown(err)
	f.State = doctor.Fail
	return f
}

// open opens the backend, unless it is that of a runner which looks at itself.
func (s *localSandbox) open() (*runner.Runner, error) {
	if s.runner != nil {
		return s.runner, nil
	}
	o := &runOptions{program: s.program, Backend: s.Backend, Runsc: s.Runsc}
	return o.runner()
}

// images is the store of the runner that looks at itself, else the one of this host.
func (s *localSandbox) images() (*image.Store, error) {
	if s.store != nil {
		return s.store, nil
	}
	return openImages()
}
