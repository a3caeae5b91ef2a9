package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/service/servicetest"
	"github.com/quavon/quavon/runner/task"
)

// output collects a job's log.
type output struct{ out, err, notes bytes.Buffer }

func (o *output) log() client.Log {
	return client.Log{Stdout: &o.out, Stderr: &o.err, Note: func(s string) { o.notes.WriteString(s + "\n") }}
}

func sh(line string) []client.Step {
	return []client.Step{{Run: client.Command{"/bin/sh", "-c", line}}}
}

func run(t *testing.T, q *queue.Queue, j client.Job) (*client.Result, *output) {
	t.Helper()
	var o output
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	res, err := client.New(q).Run(ctx, j, o.log())
	if err != nil {
		t.Fatal(err)
	}
	return res, &o
}

// TestJobs runs real jobs through one real runner.
func TestJobs(t *testing.T) {
	t.Parallel()
	q := servicetest.NewQueue(t).Open(t)
	servicetest.StartHealthy(t, servicetest.Options(t, q))

	t.Run("exit and output", func(t *testing.T) {
		t.Parallel()
		res, o := run(t, q, client.Job{Steps: sh("echo out; echo err >&2; exit 3")})
		if res.Exit != 3 || res.Reason != "" || o.out.String() != "out\n" || o.err.String() != "err\n" || !res.LogComplete || o.notes.Len() > 0 {
			t.Errorf("%+v, %q, %q, %q", res, o.out.String(), o.err.String(), o.notes.String())
		}
	})
	t.Run("steps", func(t *testing.T) {
		t.Parallel()
		testSteps(t, q)
	})
	t.Run("workspace", func(t *testing.T) {
		t.Parallel()
		testWorkspace(t, q)
	})
	t.Run("limits", func(t *testing.T) {
		t.Parallel()
		res, _ := run(t, q, client.Job{Steps: sh("sleep 60"), Limits: client.Limits{Time: client.Duration(time.Second)}})
		if res.Reason != job.ReasonTimeoutWall {
			t.Errorf("%+v", res)
		}
		res, _ = run(t, q, client.Job{Steps: sh("yes"), Limits: client.Limits{Output: 100_000}})
		if res.Reason != job.ReasonLimitOutput {
			t.Errorf("%+v", res)
		}
	})
	t.Run("a network nobody lets out", func(t *testing.T) {
		t.Parallel()
		_, err := client.New(q).Submit(t.Context(), client.Job{
			Steps: []client.Step{{Run: client.Command{"true"}, Network: job.NetworkRegistries}}, Allow: []string{"registry.example"},
		})
		if fault.Code(err) != string(job.ReasonPolicyUnsupported) {
			t.Errorf("%v", err)
		}
	})
	t.Run("an image nobody offers", func(t *testing.T) {
		t.Parallel()
		_, err := client.New(q).Submit(t.Context(), client.Job{Steps: sh("true"), Image: "sha256:" + strings.Repeat("0a", 32)})
		if fault.Code(err) != string(job.ReasonSandboxUnavailable) || !strings.Contains(err.Error(), "no healthy sandbox runner") {
			t.Errorf("%v", err)
		}
	})
	t.Run("cancelled while it runs", func(t *testing.T) {
		t.Parallel()
		testCancel(t, q)
	})
	t.Run("cancelled while it waits", func(t *testing.T) {
		t.Parallel()
		ticket, err := q.Submit(t.Context(), queue.Job{ID: "waits", Tenant: "a", Class: "nobody", Payload: []byte("{}")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := client.New(q).Attach(t.Context(), ticket.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, err := other.Wait(t.Context(), client.Log{})
		if err != nil || res.Reason != job.ReasonCancelled || res.Runner != "" {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("payloads of other kinds", func(t *testing.T) {
		t.Parallel()
		testPayloads(t, q)
	})
}

// testSteps: setup, lint and test in one sandbox, each with a result of its own.
func testSteps(t *testing.T, q *queue.Queue) {
	res, o := run(t, q, client.Job{Steps: []client.Step{
		{Name: "setup", Run: client.Command{"sh", "-c", "echo $A > /tmp/kept; sleep 100 & echo set up"}, Env: map[string]string{"A": "b"}},
		{Name: "lint", Run: client.Command{"sh", "-c", "exit 7"}, ContinueOnFailure: true},
		{Name: "slow", Run: client.Command{"sleep", "60"}, Timeout: client.Duration(200 * time.Millisecond), ContinueOnFailure: true},
		{Name: "test", Run: client.Command{"sh", "-c", "cat /tmp/kept; [ -z \"$A\" ] && exit 4"}},
		{Name: "never", Run: client.Command{"true"}},
	}})
	var got []string
	for _, s := range res.Steps {
		got = append(got, fmt.Sprintf("%s %d %s", s.Name, s.Exit, s.Reason))
	}
	if want := "setup 0 |lint 7 |slow 143 timeout_wall|test 4 "; strings.Join(got, "|") != want || res.Exit != 4 || res.Reason != "" {
		t.Errorf("steps %q, want %q; %+v", got, want, res)
	}
	if o.out.String() != "set up\nb\n" || !strings.Contains(o.notes.String(), "step 2 of 5: lint\n") {
		t.Errorf("%q, notes %q", o.out.String(), o.notes.String())
	}
}

// testWorkspace: a directory there; a patch, artefacts and an outbox back.
func testWorkspace(t *testing.T, q *queue.Queue) {
	dir := t.TempDir()
	// The directory isn't the top of its repository, so the patch needs its place.
	ws := filepath.Join(dir, "sub")
	for _, err := range []error{
		exec.Command("git", "init", "-q", dir).Run(), os.Mkdir(ws, 0o755),
		os.WriteFile(filepath.Join(ws, "a.txt"), []byte("one\ntwo\n"), 0o644),
		os.WriteFile(filepath.Join(ws, "run.sh"), []byte("#!/bin/sh\necho ran\n"), 0o755),
		os.WriteFile(filepath.Join(ws, "bin"), []byte{0, 1, 2}, 0o644), os.Symlink("/etc/hostname", filepath.Join(ws, "away")),
		os.Mkdir(filepath.Join(ws, "closed"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	res, o := run(t, q, client.Job{
		Dir: ws, Patch: true, Collect: []string{"out/**"}, Outbox: &task.Outbox{Path: "outbox", Kinds: []string{"note"}},
		Steps: sh(`./run.sh; readlink away; echo x > closed/x; sed -i s/two/2/ a.txt; printf '\000\003' > bin; mkdir out; echo r > out/r
			printf '{"kind":"note","text":"hi"}\nbad\n{"kind":"fact"}\n' > outbox`),
	})
	if res.Exit != 0 || o.out.String() != "ran\n/etc/hostname\n" {
		t.Fatalf("%+v, %q, %q", res, o.out.String(), o.err.String())
	}
	if len(res.Outbox) != 1 || string(res.Outbox[0]) != `{"kind":"note","text":"hi"}` || len(res.OutboxRefused) != 2 {
		t.Errorf("outbox %s, refused %v", res.Outbox, res.OutboxRefused)
	}
	patch := filepath.Join(dir, "p.diff")
	f, err := os.Create(patch)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(res.Patch(t.Context(), f), f.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "apply", "--verbose", patch)
	cmd.Dir = ws
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	a, _ := os.ReadFile(filepath.Join(ws, "a.txt"))
	bin, _ := os.ReadFile(filepath.Join(ws, "bin"))
	if string(a) != "one\n2\n" || string(bin) != "\x00\x03" {
		t.Errorf("after the patch: %q, %q", a, bin)
	}
	if _, err := os.Stat(filepath.Join(ws, "outbox")); err == nil {
		t.Error("the outbox is in the patch")
	}
	out := filepath.Join(dir, "out")
	got, err := res.Artefacts(t.Context(), out)
	r, _ := os.ReadFile(filepath.Join(out, "out", "r"))
	if err != nil || got.Files != 1 || string(r) != "r\n" || res.Report.Artefacts != 2 {
		t.Errorf("artefacts: %+v of %d, %v, %q", got, res.Report.Artefacts, err, r)
	}
	if _, err := os.Stat(filepath.Join(out, "outbox")); err == nil {
		t.Error("the outbox is among the artefacts")
	}
}

// TestPatchNotTaken: the queue refuses a patch that is still being written.
func TestPatchNotTaken(t *testing.T) {
	t.Parallel()
	sq := servicetest.NewQueue(t)
	keys, err := envelope.NewKeyring(sq.Key)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := queue.Open(t.Context(), queue.Options{Conn: sq.Server.Settings(), Keys: keys, MaxFile: 1, Log: servicetest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(narrow.Close)
	servicetest.StartHealthy(t, servicetest.Options(t, narrow))
	res, _ := run(t, sq.Open(t), client.Job{
		Dir: t.TempDir(), Patch: true, Steps: sh("i=0; while [ $i -lt 50 ]; do seq 5000 > f$i; i=$((i+1)); done"),
	})
	if res.Reason == job.ReasonNone || !strings.Contains(res.Message, "hand back the patch") || res.Has(task.FilePatch) {
		t.Errorf("%+v", res)
	}
}

func testCancel(t *testing.T, q *queue.Queue) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o output
	log := o.log()
	log.Stdout = writer(func(p []byte) (int, error) { cancel(); return o.out.Write(p) })
	res, err := client.New(q).Run(ctx, client.Job{Steps: sh("echo begun; sleep 60")}, log)
	if err != nil || res.Reason != job.ReasonCancelled || res.Runner == "" || o.out.String() != "begun\n" {
		t.Errorf("%+v, %v, %q", res, err, o.out.String())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// testPayloads: what holders of the key send by mistake ends rejected.
func testPayloads(t *testing.T, q *queue.Queue) {
	good := task.Task{Spec: job.Spec{ID: "other", Root: job.Root{Kind: job.RootHost}, Steps: []job.Step{{Argv: []string{"true"}}}}}
	payload, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	good.Spec.ID, good.Workspace = "payload-3", true
	missing, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range map[string]struct {
		payload  []byte
		snapshot io.Reader
	}{
		"payload-1": {payload: []byte("no JSON")}, "payload-2": {payload: payload}, "payload-3": {payload: missing},
	} {
		ticket, err := q.Submit(t.Context(), queue.Job{ID: id, Tenant: "a", Class: task.ClassHost, Payload: c.payload}, c.snapshot)
		if err != nil {
			t.Fatal(err)
		}
		o, err := ticket.Wait(t.Context(), nil)
		if err != nil || o.Reason != job.ReasonRejected {
			t.Errorf("%s: %+v, %v", id, o, err)
		}
	}
}

// TestDrain: a job that ends in time ends, one that doesn't is handed back and ends
// elsewhere.
func TestDrain(t *testing.T) {
	t.Parallel()
	q := servicetest.NewQueue(t).Open(t)
	first := servicetest.Options(t, q)
	first.Drain = 20 * time.Second
	begun := make(chan struct{}, 2)
	first.Runner = slow(first.Runner, begun)
	r := servicetest.StartHealthy(t, first)
	c := client.New(q)
	var o, p output
	tooLong := client.Job{Steps: sh("echo begun; : too long; echo through")}
	long, err := c.Submit(t.Context(), tooLong)
	if err != nil {
		t.Fatal(err)
	}
	short, err := c.Submit(t.Context(), client.Job{Steps: sh("echo begun; sleep 1; echo through")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-begun:
		case <-time.After(3 * time.Minute):
			t.Fatal("the jobs don't run")
		}
	}
	r.Drain()
	servicetest.WaitState(t, q, first.ID, queue.StateDraining)
	if _, err := c.Submit(t.Context(), tooLong); fault.Code(err) != string(job.ReasonSandboxUnavailable) {
		t.Errorf("submitted to a draining runner: %v", err)
	}
	res, err := short.Wait(t.Context(), p.log())
	if err != nil || res.Exit != 0 || res.Attempt != 1 || p.out.String() != "begun\nthrough\n" {
		t.Errorf("short: %+v, %v", res, err)
	}
	r.Stop(t)
	second := servicetest.Options(t, q)
	servicetest.StartHealthy(t, second)
	res, err = long.Wait(t.Context(), o.log())
	if err != nil || res.Exit != 0 || res.Attempt != 2 || res.Runner != second.ID || !strings.HasSuffix(o.out.String(), "begun\nthrough\n") {
		t.Errorf("long: %+v, %v, %q", res, err, o.out.String())
	}
}

// slow makes jobs that are too long too long for any test, and tells when a job begins.
func slow(real service.Runner, begun chan<- struct{}) service.Runner {
	return fakeRunner(func(ctx context.Context, s job.Spec, st runner.Streams) (job.Result, error) {
		if strings.Contains(strings.Join(s.Steps[0].Argv, " "), "too long") {
			s.Steps = []job.Step{{Argv: []string{"/bin/sh", "-c", "echo begun; sleep 1000"}}}
		}
		out, tell := st.Stdout, sync.OnceFunc(func() { begun <- struct{}{} })
		st.Stdout = writer(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte("begun")) {
				tell()
			}
			return out.Write(p)
		})
		return real.Run(ctx, s, st)
	})
}

// fakeRunner stands for sandboxes that fail, or tarry, in ways that real ones don't on
// demand.
type fakeRunner func(context.Context, job.Spec, runner.Streams) (job.Result, error)

func (f fakeRunner) Run(ctx context.Context, s job.Spec, st runner.Streams) (job.Result, error) {
	return f(ctx, s, st)
}

// TestGate: no job without a passed test of what is there now.
func TestGate(t *testing.T) {
	t.Parallel()
	q := servicetest.NewQueue(t).Open(t)
	o := servicetest.Options(t, q)
	var passes, broken atomic.Bool
	var probes atomic.Int32
	var lock atomic.Value
	lock.Store("sha256:a")
	identify := o.Identify
	o.Identify = func(ctx context.Context) (service.Identity, error) {
		id, err := identify(ctx)
		id.Evidence.LockDigest, _ = lock.Load().(string)
		return id, err
	}
	o.Probe = func(context.Context) (queue.Smoke, error) {
		probes.Add(1)
		if broken.Load() {
			return queue.Smoke{}, errors.New("no sandbox")
		}
		return queue.Smoke{Passed: passes.Load(), Probes: 1, At: time.Now()}, nil
	}
	ran := atomic.Int32{}
	o.Runner = fakeRunner(func(_ context.Context, s job.Spec, _ runner.Streams) (job.Result, error) {
		if ran.Add(1) == 2 {
			return job.Result{ID: s.ID, Exit: -1}, fault.New("no sandbox today", "").WithCode(string(job.ReasonSandboxUnavailable))
		}
		return job.Result{ID: s.ID}, nil
	})
	broken.Store(true)
	r := servicetest.Start(t, o)
	h := servicetest.WaitState(t, q, o.ID, queue.StateUnknown)
	if h.Smoke != nil {
		t.Errorf("untested, and yet %+v", h.Smoke)
	}
	c := client.New(q)
	if _, err := c.Submit(t.Context(), client.Job{Steps: sh("true")}); fault.Code(err) != string(job.ReasonSandboxUnavailable) {
		t.Fatalf("submitted to an untested runner: %v", err)
	}
	r.Stop(t)

	broken.Store(false)
	r = servicetest.Start(t, o)
	servicetest.WaitState(t, q, o.ID, queue.StateFailed)
	if _, err := c.Submit(t.Context(), client.Job{Steps: sh("true")}); fault.Code(err) != string(job.ReasonSandboxUnavailable) {
		t.Fatalf("submitted to a runner that failed its test: %v", err)
	}
	r.Stop(t)

	passes.Store(true)
	r = servicetest.StartHealthy(t, o)
	if res, _ := run(t, q, client.Job{Steps: sh("true")}); res.Exit != 0 {
		t.Errorf("%+v", res)
	}
	before := probes.Load()
	// No sandbox for the next job: it goes back, and comes again after a new test.
	if res, _ := run(t, q, client.Job{Steps: sh("true")}); res.Exit != 0 || res.Attempt != 2 || probes.Load() == before {
		t.Errorf("%+v after %d tests more", res, probes.Load()-before)
	}
	before = probes.Load()
	lock.Store("sha256:b")
	r.Look(t.Context())
	if h := servicetest.WaitState(t, q, o.ID, queue.StateHealthy); probes.Load() == before && h.Smoke.Bound.LockDigest != "sha256:b" {
		for over := time.Now().Add(time.Minute); time.Now().Before(over); {
			if h = servicetest.WaitState(t, q, o.ID, queue.StateHealthy); h.Smoke.Bound.LockDigest == "sha256:b" {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("the lock changed, and the test is still %+v", h.Smoke)
	}
}
