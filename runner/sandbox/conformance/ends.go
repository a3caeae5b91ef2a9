package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/hostlist"
	"github.com/quavon/quavon/runner/state/statetest"
)

// An agent that leaves ends the sandbox without a reason.
func testAgentLeaves(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	if err := b.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if end := b.waitDone(t); end.Reason != job.ReasonNone || end.State == nil && sandbox.AsDetached(s.backend) == nil {
		t.Errorf("ended as %+v", end)
	}
	b.stop(t)
}

// Stop works with a cancelled context, while a job runs, twice and by several at
// once.
func testStop(t *testing.T, s *suite) {
	b := s.start(t, s.allLimits())
	p := make(chan result, 1)
	go func() { p <- b.shell(t, "trap '' TERM INT; while :; do :; done") }()
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("cancelled by the test"))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := b.Stop(ctx); err != nil {
				t.Errorf("stop with a cancelled context: %v", err)
			}
		})
	}
	wg.Wait()
	select {
	case <-b.Sandbox.Done():
	default:
		t.Error("stopped, but not done")
	}
	if end := b.Ended(); end.Reason != job.ReasonNone {
		t.Errorf("ended by %q", end.Reason)
	}
	if r := <-p; r.lost == nil {
		t.Errorf("the command ended as %+v", r)
	}
	if err := b.Ping(t.Context()); err == nil {
		t.Error("a stopped sandbox answers")
	}
}

// A start that fails, at once or a moment later, leaves nothing.
func testStartFails(t *testing.T, s *suite) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("cancelled by the test"))
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		change func(*sandbox.Config)
	}{
		{"cancelled", cancelled, func(*sandbox.Config) {}},
		{"no workspace", t.Context(), func(c *sandbox.Config) { c.Mounts[0].Source = "/no/such/directory" }},
		{"no guest", t.Context(), func(c *sandbox.Config) { c.Guest = "/no/such/guest" }},
		{"bad id", t.Context(), func(c *sandbox.Config) { c.ID = "../x" }},
	} {
		c := s.nextConfig(s.allLimits(), statetest.Path(t))
		tt.change(&c)
		sb, err := s.backend.Start(tt.ctx, c)
		if err != nil {
			if fault.Code(err) == "" && !errors.Is(err, context.Cause(cancelled)) || fault.Hint(err) == "" {
				t.Errorf("%s: the error %q has no code or no hint", tt.name, err)
			}
			s.nothingLeft(t)
			continue
		}
		select {
		case <-sb.Done():
		case <-time.After(testTime):
			t.Fatalf("%s: it runs", tt.name)
		}
		if end := sb.Ended(); end.Reason != job.ReasonSandboxUnavailable || end.Log == "" {
			t.Errorf("%s: ended as %+v", tt.name, end)
		}
		if err := sb.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		s.nothingLeft(t)
	}
}

func testSameID(t *testing.T, s *suite) {
	c := s.nextConfig(job.Limits{}, statetest.Path(t))
	b, err := s.open(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.backend.Start(t.Context(), c); err == nil {
		t.Error("started a second sandbox with the same id")
	}
	b.must(t, "true")
	b.stop(t)
	again, err := s.open(t, c)
	if err != nil {
		t.Fatalf("the id is not free after stop: %v", err)
	}
	again.stop(t)
}

// frontCommand is this binary as a front end.
func (s *suite) frontCommand(c sandbox.Config) (*exec.Cmd, error) {
	env, err := json.Marshal(front{Dir: s.dir, Config: c})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envFront+"="+string(env))
	return cmd, nil
}

// startFront starts this binary as a front end that runs a sandbox, and returns
// when it has printed a line.
func (s *suite) startFront(t *testing.T, c sandbox.Config, until string) *exec.Cmd {
	t.Helper()
	cmd, err := s.frontCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == until {
			return cmd
		}
	}
	t.Fatalf("the front end did not say %q", until)
	return nil
}

// When the front end is killed, its sandbox dies at once and the next start's
// reaping removes the rest.
func testFrontKilled(t *testing.T, s *suite) {
	c := s.nextConfig(s.allLimits(), statetest.Path(t))
	cmd := s.startFront(t, c, "running")
	running := s.processes()
	if len(running) < 2 {
		t.Errorf("a running sandbox has the processes %q", running)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	killed := time.Now()
	// Before its pipes close, where there are pipes; an engine takes its time.
	limit := holdTime - 2*time.Second
	if sandbox.AsDetached(s.backend) != nil {
		limit = testTime / 4
	}
	for left := running; len(left) > 0; left = alive(running) {
		if time.Since(killed) > limit {
			t.Fatalf("outlive their front end: %q", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.reap(t, c.ID)
	s.nothingLeft(t)
}

// A front end killed at any moment of its start leaves nothing that reaping
// doesn't find.
func testFrontKilledStarting(t *testing.T, s *suite) {
	for i := range 8 {
		c := s.nextConfig(s.allLimits(), statetest.Path(t))
		cmd := s.startFront(t, c, "starting")
		time.Sleep(time.Duration(i*i) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		s.reapAll(t)
		s.nothingLeft(t)
	}
}

// reapAll reaps until the host is as it was. A process that was being forked when
// the front end died has the lock for another moment.
func (s *suite) reapAll(t *testing.T) {
	t.Helper()
	for over := time.Now().Add(testTime); time.Now().Before(over); {
		if _, err := s.backend.Reap(t.Context()); err != nil {
			t.Errorf("reap: %v", err)
		}
		if s.lister.Settle(t.Context(), s.before, 50*time.Millisecond) == nil {
			return
		}
	}
}

// processes lists the new ones, as "process PID@START".
func (s *suite) processes() []string {
	var found []string
	for _, line := range hostlist.Diff(s.before, s.lister.Take()) {
		// What holds the front end's pipes is none of the sandbox's.
		if f := strings.Fields(line); f[0] == "+" && f[1] == "process" && !strings.HasSuffix(line, "/sleep") {
			found = append(found, f[1]+" "+f[2])
		}
	}
	return found
}

// alive returns those of the processes that exist on the host.
func alive(processes []string) []string {
	now := map[string]bool{}
	for line := range (&hostlist.Lister{}).Take() {
		if f := strings.Fields(line); f[0] == "process" {
			now[f[0]+" "+f[1]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(processes), func(p string) bool { return !now[p] })
}

// reap expects just one sandbox to be reaped.
func (s *suite) reap(t *testing.T, id string) {
	t.Helper()
	ids, err := s.backend.Reap(t.Context())
	if err != nil || !slices.Equal(ids, []string{id}) {
		t.Errorf("reaped %v, %v, want %s", ids, err, id)
	}
}

// Reaping touches nothing whose owner lives, here or in another process.
func testReapSpares(t *testing.T, s *suite) {
	mine := s.start(t, job.Limits{})
	c := s.nextConfig(job.Limits{}, statetest.Path(t))
	cmd := s.startFront(t, c, "running")
	ids, err := s.backend.Reap(t.Context())
	if err != nil || len(ids) > 0 {
		t.Errorf("reaped %v, %v", ids, err)
	}
	mine.must(t, "true")
	mine.stop(t)
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other front end is gone: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.reap(t, c.ID)
}

// A sandbox's end gives back the host process's file descriptors.
func testDescriptors(t *testing.T, s *suite) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	s.start(t, s.allLimits()).stop(t)
	before, after := 0, 1
	// A client may keep one connection more on a busy machine; a leak grows with each try.
	for try := 0; try < 3 && after > before; try++ {
		before = count()
		for range 3 {
			s.start(t, s.allLimits()).stop(t)
		}
		after = count()
	}
	if after > before {
		links, _ := os.ReadDir("/proc/self/fd")
		var open []string
		for _, l := range links {
			target, _ := os.Readlink("/proc/self/fd/" + l.Name())
			open = append(open, target)
		}
		t.Errorf("%d descriptors before, %d after: %s", before, after, strings.Join(open, " "))
	}
}
