package servicetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/service"
)

// Starts is a test of whether a sandbox comes up and looks like one from within: it
// runs a job the way all jobs run. It is no test of escapes.
type Starts struct {
	Runner  service.Runner
	Backend sandbox.Backend
	// Images lists digests to run in where the host's toolchain can't be shown. The
	// first needs a /bin/sh.
	Images func(context.Context) ([]string, error)
	// OwnKernel says that the sandbox has a kernel other than the host's.
	OwnKernel bool
}

// facts prints, with the shell alone, what a job sees.
const facts = `show() { while IFS= read -r line; do echo "$1 $line"; done < "$2"; }
show version /proc/version; show net /proc/net/dev; show status /proc/self/status`

// Probe runs the test.
func (t Starts) Probe(ctx context.Context) (queue.Smoke, error) {
	root, err := t.root(ctx)
	if err != nil {
		return queue.Smoke{}, err
	}
	var out bytes.Buffer
	asked := t.limits()
	res, err := t.Runner.Run(ctx, job.Spec{
		ID: "probe-" + strings.ToLower(rand.Text()[:12]), Root: root, Limits: asked,
		Steps: []job.Step{{Argv: []string{"/bin/sh", "-c", facts}}},
	}, runner.Streams{Stdout: &out})
	if err != nil {
		return queue.Smoke{}, err
	}
	return t.judge(res, asked, out.String()), nil
}

func (t Starts) root(ctx context.Context) (job.Root, error) {
	if why, ok := t.Backend.Policies()[sandbox.PolicyRootHost]; ok && why == sandbox.Enforced {
		return job.Root{Kind: job.RootHost}, nil
	}
	images, err := t.Images(ctx)
	if err == nil && len(images) == 0 {
		err = errors.New("there is no image to run it in: pull one with `quavon images pull`")
	}
	if err != nil {
		return job.Root{}, err
	}
	return job.Root{Kind: job.RootImage, Image: images[0]}, nil
}

// limits are those that the backend enforces.
func (t Starts) limits() job.Limits {
	l := job.Limits{Output: 1 << 20, Wall: time.Minute}
	for p, set := range map[sandbox.Policy]func(){
		sandbox.PolicyMemory: func() { l.Memory = 512 << 20 },
		sandbox.PolicyPids:   func() { l.Pids = 64 },
		sandbox.PolicyDisk:   func() { l.Disk = 64 << 20 },
	} {
		if why, ok := t.Backend.Policies()[p]; ok && why == sandbox.Enforced {
			set()
		}
	}
	return l
}

func (t Starts) judge(res job.Result, asked job.Limits, out string) queue.Smoke {
	s := queue.Smoke{At: time.Now()}
	check := func(name string, ok bool) {
		s.Probes++
		if !ok {
			s.Failed = append(s.Failed, name)
		}
	}
	got := res.Sandbox.Limits
	seen := seen(out)
	check("starts", res.Reason == job.ReasonNone && res.Exit == 0 && len(seen["version"]) > 0)
	check("limits", got.Memory <= asked.Memory && got.Pids == asked.Pids && got.Disk == asked.Disk)
	check("no capabilities", slices.Contains(seen["status"], "CapEff: 0000000000000000") &&
		slices.Contains(seen["status"], "CapBnd: 0000000000000000"))
	check("no network", len(seen["net"]) > 0 && !slices.ContainsFunc(seen["net"], isInterface))
	if t.OwnKernel {
		own, _ := os.ReadFile("/proc/version")
		check("own kernel", !slices.Contains(seen["version"], strings.Join(strings.Fields(string(own)), " ")))
	}
	s.Passed = len(s.Failed) == 0
	return s
}

// seen sorts the lines by what they are about, with single spaces.
func seen(out string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(out) {
		about, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		m[about] = append(m[about], strings.Join(strings.Fields(rest), " "))
	}
	return m
}

// isInterface says whether a line of /proc/net/dev is about one other than loopback.
func isInterface(line string) bool {
	name, _, ok := strings.Cut(line, ":")
	return ok && name != "lo"
}
