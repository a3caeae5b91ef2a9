package service_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/service/servicetest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// copyFile makes a copy, as an upgrade does: a new file by rename. What is started meanwhile
// would have it open for writing, and nobody could run it.
func copyFile(t *testing.T, from, to string, more string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := io.Copy(out, in)
	_, err2 := out.WriteString(more)
	if err1 != nil || err2 != nil || out.Close() != nil || os.Rename(to+".new", to) != nil {
		t.Fatal("copying failed", err1, err2)
	}
}

// TestEvidence changes under a live runner what its evidence is bound to: runsc's
// binary, its arguments, the lock, the kernel, the boot. Each time the record says
// unknown and jobs are refused, until the probes have passed again.
func TestEvidence(t *testing.T) {
	t.Parallel()
	q := servicetest.NewQueue(t).Open(t)
	o := servicetest.Options(t, q)
	st, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	binary, lock := filepath.Join(st.Path(), "runsc"), filepath.Join(st.Path(), "images.lock.json")
	copyFile(t, sandboxtest.Runsc(t), binary, "")
	backend := runsc.New(binary, st)
	r := &runner.Runner{Backend: backend, Guest: sandboxtest.Guest(t), Store: st.Path("toolchain"), Spool: st.Path(), Log: servicetest.Log(t)}
	o.Backend, o.Runner = backend, r
	var bound atomic.Pointer[func(*evidence.Bound)]
	subject := service.Subject{Backend: backend, Guest: r.Guest, Lock: lock}
	o.Identify = func(ctx context.Context) (service.Identity, error) {
		id, err := subject.Identify(ctx)
		if edit := bound.Load(); edit != nil {
			(*edit)(&id.Evidence)
		}
		return id, err
	}
	// A test waits to be let, so that what is before it can be seen.
	let := make(chan struct{}, 8)
	o.Probe = func(ctx context.Context) (queue.Smoke, error) {
		select {
		case <-let:
		case <-ctx.Done():
			return queue.Smoke{}, context.Cause(ctx)
		}
		report, err := smoke.For(r, "").Run(ctx, smoke.Options{Only: []string{"B1-masks", "E3-door"}})
		if err != nil {
			return queue.Smoke{}, err
		}
		e := report.Evidence()
		return queue.Smoke{Passed: e.Passed, Probes: len(report.Results), Failed: e.NotHeld, At: e.At}, nil
	}
	let <- struct{}{}
	s := servicetest.StartHealthy(t, o)
	edit := func(f func(*evidence.Bound)) func() { return func() { bound.Store(&f) } }
	for _, change := range []struct {
		name string
		make func()
	}{
		{"binary", func() { copyFile(t, sandboxtest.Runsc(t), binary, "\x00") }},
		{"lock", func() {
			if err := os.WriteFile(lock, []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"arguments", edit(func(e *evidence.Bound) { e.RuntimeArgs = append(slices.Clone(e.RuntimeArgs), "--debug") })},
		{"kernel", edit(func(e *evidence.Bound) { e.Kernel += "-new" })},
		{"boot", edit(func(e *evidence.Bound) { e.BootID = "another" })},
		{"policy", edit(func(e *evidence.Bound) { e.PolicyDigest = "another" })},
	} {
		before := servicetest.WaitState(t, q, o.ID, queue.StateHealthy)
		change.make()
		s.Look(t.Context())
		if h := servicetest.WaitState(t, q, o.ID, queue.StateUnknown); h.Smoke != nil {
			t.Errorf("%s: the old evidence is still there: %+v", change.name, h.Smoke)
		}
		if _, err := client.New(q).Submit(t.Context(), client.Job{Steps: sh("true")}); fault.Code(err) != string(job.ReasonSandboxUnavailable) {
			t.Errorf("%s: submitted to an untested runner: %v", change.name, err)
		}
		let <- struct{}{}
		after := servicetest.WaitState(t, q, o.ID, queue.StateHealthy)
		if after.Smoke == nil || before.Smoke == nil || after.Smoke.Bound.Equal(before.Smoke.Bound) || after.Smoke.Probes < 1 {
			t.Errorf("%s: the evidence is %+v, before it was %+v", change.name, after.Smoke, before.Smoke)
		}
	}
	if res, _ := run(t, q, client.Job{Steps: sh("exit 5")}); res.Exit != 5 {
		t.Errorf("after all the tests: %+v", res)
	}
}

// TestRetest lets somebody ask for a test: what it says counts.
func TestRetest(t *testing.T) {
	t.Parallel()
	q := servicetest.NewQueue(t).Open(t)
	o := servicetest.Options(t, q)
	s := servicetest.StartHealthy(t, o)
	broken := func(context.Context) (queue.Smoke, error) {
		return queue.Smoke{Probes: 1, Failed: []string{"X1"}, At: time.Now()}, nil
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Retest(late, broken); err == nil {
		t.Error("a test that was cut off has ended well")
	}
	servicetest.WaitState(t, q, o.ID, queue.StateHealthy)
	if _, err := s.Retest(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if h := servicetest.WaitState(t, q, o.ID, queue.StateFailed); !slices.Equal(h.Smoke.Failed, []string{"X1"}) {
		t.Errorf("%+v", h.Smoke)
	}
	if _, err := s.Retest(t.Context(), o.Probe); err != nil {
		t.Fatal(err)
	}
	servicetest.WaitState(t, q, o.ID, queue.StateHealthy)
}
