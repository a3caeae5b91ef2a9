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
	if end := b.waitDone(t); end.Reason != job.ReasonNone || end.State == nil {
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

// startFront starts this binary as a front end that runs a sandbox, and returns
// when it has printed a line.
func (s *suite) startFront(t *testing.T, c sandbox.Config, until string) *exec.Cmd {
	t.Helper()
	env, err := json.Marshal(front{Dir: s.dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envFront+"="+string(env))
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
// reaping removes the rest, also of one killed while it was starting.
func testFrontKilled(t *testing.T, s *suite) {
	for _, until := range []string{"running", "starting"} {
		c := s.nextConfig(s.allLimits(), statetest.Path(t))
		cmd := s.startFront(t, c, until)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		died := time.Now()
		s.processesGone(t)
		ids := s.reapUntil(t, c.ID, until == "starting")
		if until == "running" && !slices.Contains(ids, c.ID) {
			t.Errorf("reaped %v, not %s", ids, c.ID)
		}
		s.nothingLeft(t)
		t.Logf("killed while %s: nothing left after %v", until, time.Since(died).Round(time.Millisecond))
	}
}

// processesGone waits until the sandbox's processes have died by themselves.
func (s *suite) processesGone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		alive := slices.DeleteFunc(hostlist.Diff(s.before, s.lister.Take()), func(line string) bool {
			return !strings.HasPrefix(line, "+ process ")
		})
		if len(alive) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("outlive their front end: %q", alive)
			return
		}
	}
}

// reapUntil reaps. A front end killed while starting may not have a slot yet.
func (s *suite) reapUntil(t *testing.T, id string, maybe bool) []string {
	t.Helper()
	ids, err := s.backend.Reap(t.Context())
	if err != nil {
		t.Errorf("reap: %v", err)
	}
	if !maybe && !slices.Contains(ids, id) {
		t.Errorf("reaped %v, not %s", ids, id)
	}
	return ids
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
	s.reapUntil(t, c.ID, false)
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
	before := count()
	for range 3 {
		s.start(t, s.allLimits()).stop(t)
	}
	if after := count(); after > before {
		links, _ := os.ReadDir("/proc/self/fd")
		var open []string
		for _, l := range links {
			target, _ := os.Readlink("/proc/self/fd/" + l.Name())
			open = append(open, target)
		}
		t.Errorf("%d descriptors before, %d after: %s", before, after, strings.Join(open, " "))
	}
}
