package conformance

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/hostlist"
)

func (s *suite) refused(t *testing.T, err error, p sandbox.Policy) {
	t.Helper()
	if fault.Code(err) != string(job.ReasonPolicyUnsupported) || !strings.Contains(err.Error(), string(p)) || fault.Hint(err) == "" {
		t.Errorf("%s is not enforced, but asking for it gives %v", p, err)
	}
}

// asks has a job for each policy that asks for it.
var asks = map[sandbox.Policy]job.Spec{
	sandbox.PolicyMemory:     {Limits: job.Limits{Memory: 1 << 30}},
	sandbox.PolicyCPU:        {Limits: job.Limits{CPUs: 1}},
	sandbox.PolicyPids:       {Limits: job.Limits{Pids: 10}},
	sandbox.PolicyDisk:       {Limits: job.Limits{Disk: 1 << 30}},
	sandbox.PolicyRootHost:   {Root: job.Root{Kind: job.RootHost}},
	sandbox.PolicyRootImage:  {Root: job.Root{Kind: job.RootImage}},
	sandbox.PolicyMounts:     {Mounts: []job.Mount{{Source: "/a"}}},
	sandbox.PolicyTTY:        {Steps: []job.Step{{TTY: true}}},
	sandbox.PolicyRegistries: {Steps: []job.Step{{Network: job.NetworkRegistries}}},
}

// A policy is either enforced or refused; there is nothing between.
func testPolicies(t *testing.T, s *suite) {
	have := s.backend.Policies()
	for p := range have {
		if _, ok := asks[p]; !ok {
			t.Errorf("the suite does not know policy %s", p)
		}
	}
	for p, spec := range asks {
		err := sandbox.Admit(s.backend, spec)
		if why, ok := have[p]; ok && why == sandbox.Enforced {
			if err != nil {
				t.Errorf("%s is enforced, but refused: %v", p, err)
			}
			continue
		}
		s.refused(t, err, p)
	}
}

// allLimits are those that the backend enforces.
func (s *suite) allLimits() job.Limits {
	l := job.Limits{Disk: 64 << 20}
	have := s.backend.Policies()
	enforced := func(p sandbox.Policy) bool { why, ok := have[p]; return ok && why == sandbox.Enforced }
	if enforced(sandbox.PolicyMemory) {
		l.Memory = 512 << 20
	}
	if enforced(sandbox.PolicyCPU) {
		l.CPUs = 1.5
	}
	if enforced(sandbox.PolicyPids) {
		l.Pids = 64
	}
	return l
}

// What Info says was read back, so it equals what was asked for.
func testInfo(t *testing.T, s *suite) {
	want := s.allLimits()
	b := s.start(t, want)
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, info.Limits); diff != "" {
		t.Errorf("limits (-asked +read back):\n%s", diff)
	}
	if info.Backend != s.backend.Name() || info.Runtime == "" {
		t.Errorf("info %+v lacks the backend's name or the runtime's version", info)
	}
	if hit := b.Hit(); hit != nil {
		t.Errorf("limits hit by an idle sandbox: %v", hit)
	}
	for _, line := range hostlist.Diff(s.before, s.lister.Take()) {
		if strings.HasPrefix(line, "+ mount ") {
			t.Errorf("the host's mount table has %s", line)
		}
	}
	b.stop(t)
}

func testStreams(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	c := command("/bin/sh", "-c", "cat; echo err >&2")
	r := b.exec(t, strings.NewReader("in\x00\xff"), c)
	if r.out != "in\x00\xff" || r.err != "err\n" || r.Code != 0 || r.lost != nil {
		t.Errorf("got %+v", r)
	}
	// Without stdin there is its end, not a hang.
	if r := b.exec(t, nil, command("cat")); r.Code != 0 || r.out != "" || r.lost != nil {
		t.Errorf("without stdin: %+v", r)
	}
	b.stop(t)
}

// Much more than any buffer holds goes in and comes back, unchanged.
func testLargeStreams(t *testing.T, s *suite) {
	const size = 64 << 20
	b := s.start(t, job.Limits{})
	sent, got := sha256.New(), sha256.New()
	src := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)
	p, err := b.Exec(t.Context(), command("cat"), agent.Stdio{Stdin: src, Stdout: got})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("exit %+v, %v", e, err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Error("what came back is not what was sent")
	}
	b.stop(t)
}

func testExits(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	for _, tt := range []struct {
		argv         []string
		code, signal int
	}{
		{[]string{"true"}, 0, 0},
		{[]string{"false"}, 1, 0},
		{[]string{"sh", "-c", "exit 42"}, 42, 0},
		{[]string{"sh", "-c", "exit 255"}, 255, 0},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, 11},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, 9},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, 15},
		{[]string{"/no/such/program"}, 127, 0},
		{[]string{"/etc/passwd"}, 126, 0},
	} {
		r := b.exec(t, nil, command(tt.argv...))
		if r.Code != tt.code || r.Signal != tt.signal || r.lost != nil || r.TimedOut {
			t.Errorf("%q: code %d, signal %d, %v; want %d, %d", tt.argv, r.Code, r.Signal, r.lost, tt.code, tt.signal)
		}
		if (r.StartError != "") != (tt.code == 126 || tt.code == 127) {
			t.Errorf("%q: start error %q", tt.argv, r.StartError)
		}
	}
	b.stop(t)
}

func testTerminal(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	c := command("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size")
	c.TTY, c.Rows, c.Cols = true, 33, 77
	r := b.exec(t, nil, c)
	if r.Code != 0 || strings.TrimSpace(r.out) != "33 77" {
		t.Errorf("in a terminal: %+v", r)
	}
	if r := b.shell(t, "test -t 1"); r.Code != 1 {
		t.Errorf("without a terminal: %+v", r)
	}
	b.stop(t)
}
