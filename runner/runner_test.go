package runner_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/runner/workspace"
	"github.com/quavon/quavon/test/leak"
)

// bench is a runner on real runsc with a workspace and captured output.
type bench struct {
	*runner.Runner
	state, dir     string
	stdout, stderr bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	d := statetest.Dir(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "given"), []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := &bench{state: d.Path("sandboxes"), dir: dir, Runner: &runner.Runner{
		Backend: runsc.New(sandboxtest.Runsc(t), d), Guest: sandboxtest.Guest(t),
		Store: d.Path("toolchain"), Spool: d.Path(), Grace: 300 * time.Millisecond,
	}}
	t.Cleanup(func() {
		if left, _ := os.ReadDir(b.state); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return b
}

// spec is a job of shell scripts, one per step.
func (b *bench) spec(scripts ...string) job.Spec {
	s := job.Spec{
		ID: "test-" + strings.ToLower(rand.Text()), Root: job.Root{Kind: job.RootHost},
		Mounts: []job.Mount{{Source: b.dir, Target: job.WorkspaceDir, Mode: job.MountOverlay}},
	}
	for _, script := range scripts {
		s.Steps = append(s.Steps, job.Step{Argv: []string{"sh", "-c", script}})
	}
	return s
}

func (b *bench) run(ctx context.Context, s job.Spec) (job.Result, error) {
	return b.Run(ctx, s, runner.Streams{Stdout: &b.stdout, Stderr: &b.stderr})
}

func TestStepsShareASandboxAndNothingSurvivesBetweenThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	res, err := b.run(t.Context(), b.spec(
		`echo one >kept; setsid sleep 300 & trap "" TERM; setsid sh -c 'trap "" TERM; sleep 301' & echo first`,
		`cat kept; ps -e -o comm= | grep -c sleep; exit 3`,
		`echo never`))
	if err != nil || res.Exit != 3 || res.Reason != job.ReasonNone || len(res.Steps) != 2 {
		t.Fatalf("result %+v, %v", res, err)
	}
	if got := b.stdout.String(); got != "first\none\n0\n" {
		t.Errorf("stdout %q, stderr %q", got, b.stderr.String())
	}
	var names []string
	for _, p := range res.Phases {
		names = append(names, p.Name)
	}
	if want := []string{"prepare", "start", "connect", "setup", "steps", "stop"}; !slices.Equal(names, want) {
		t.Errorf("phases %v, want %v", names, want)
	}
	if res.Usage.MaxRSS <= 0 || res.Output.Delivered != int64(b.stdout.Len()+b.stderr.Len()) {
		t.Errorf("usage %+v, output %+v", res.Usage, res.Output)
	}
}

func TestContinueOnFailureAndStepTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec("exit 5", "sleep 60", "echo third", "sleep 61", "echo never")
	s.Steps[0].ContinueOnFailure = true
	s.Steps[1].ContinueOnFailure = true
	s.Steps[1].Timeout = 300 * time.Millisecond
	s.Steps[3].Timeout = 300 * time.Millisecond
	res, err := b.run(t.Context(), s)
	if err != nil || res.Reason != job.ReasonTimeoutWall || len(res.Steps) != 4 {
		t.Fatalf("result %+v, %v", res, err)
	}
	if res.Steps[0].Exit != 5 || res.Steps[1].Reason != job.ReasonTimeoutWall || b.stdout.String() != "third\n" {
		t.Errorf("steps %+v, stdout %q", res.Steps, b.stdout.String())
	}
}

func TestWallClockBoundsAllSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec("sleep 0.2", `trap "" TERM; while :; do sleep 60; done`)
	s.Limits.Wall = 6 * time.Second // the first step is long through by then, also on a busy machine
	start := time.Now()
	res, err := b.run(t.Context(), s)
	if err != nil || res.Reason != job.ReasonTimeoutWall || len(res.Steps) != 2 || res.Signal != "SIGKILL" {
		t.Errorf("result %+v, %v", res, err)
	}
	if took := time.Since(start); took > 50*time.Second { // the loop alone lasts for ever, a sleep of it a minute
		t.Errorf("took %v", took)
	}
	if !slices.Contains(res.LimitsHit, "timeout_wall") {
		t.Errorf("limits hit: %v", res.LimitsHit)
	}
}

func TestOutputLimitSpansStepsAndStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec("echo 12345", "echo 12345 >&2", "echo 12345678; sleep 60")
	s.Limits.Output = 15
	res, err := b.run(t.Context(), s)
	if err != nil || res.Reason != job.ReasonLimitOutput || !res.Output.Truncated || res.Output.Delivered != 15 {
		t.Errorf("result %+v, %v", res, err)
	}
	if b.stdout.String() != "12345\n123" || b.stderr.String() != "12345\n" {
		t.Errorf("stdout %q, stderr %q", b.stdout.String(), b.stderr.String())
	}
}

func TestOutputExactlyAtTheLimitIsFine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec("echo 12345")
	s.Limits.Output = 6
	res, err := b.run(t.Context(), s)
	if err != nil || res.Reason != job.ReasonNone || res.Output.Truncated {
		t.Errorf("result %+v, %v", res, err)
	}
}

// One writer may be given for both streams, as with os/exec.
func TestOneWriterForBothStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec("for i in $(seq 200); do echo out; echo err >&2; done")
	var both bytes.Buffer // A race would be detected.
	if _, err := b.Run(t.Context(), s, runner.Streams{Stdout: &both, Stderr: &both}); err != nil {
		t.Fatal(err)
	}
	if n := both.Len(); n != 200*8 {
		t.Errorf("%d bytes of %d", n, 200*8)
	}
}

var errOperator = errors.New("the operator said so")

func TestCancelledBeforeAndDuringAStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOperator)
	res, err := b.run(ctx, b.spec("echo never"))
	if err != nil || res.Reason != job.ReasonCancelled || res.Exit != -1 || len(res.Steps) != 0 {
		t.Errorf("before: result %+v, %v", res, err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	read, write := io.Pipe()
	go func() {
		_, _ = io.ReadFull(read, make([]byte, 6))
		cancel(errOperator)
		_, _ = io.Copy(io.Discard, read)
	}()
	res, err = b.Run(ctx, b.spec(`trap 'echo bye; exit 9' TERM; echo ready; sleep 60 & wait`, "echo never"), runner.Streams{Stdout: write})
	if err != nil || res.Reason != job.ReasonCancelled || res.Message != errOperator.Error() || res.Exit != 9 || len(res.Steps) != 1 {
		t.Errorf("during: result %+v, %v", res, err)
	}
}

func TestHurrySkipsTheGrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Grace = time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	hurry := make(chan struct{})
	read, write := io.Pipe()
	go func() {
		_, _ = io.ReadFull(read, make([]byte, 6))
		cancel(errOperator)
		close(hurry)
		_, _ = io.Copy(io.Discard, read)
	}()
	res, err := b.Run(ctx, b.spec(`trap "" TERM; echo ready; while :; do sleep 60; done`), runner.Streams{Stdout: write, Hurry: hurry})
	if err != nil || res.Reason != job.ReasonCancelled {
		t.Errorf("result %+v, %v", res, err)
	}
}

func TestAStuckReaderDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]runner.Streams{
		"in time":    {},
		"in a hurry": {Hurry: closed()},
	} {
		b := newBench(t)
		s := b.spec("yes")
		s.Limits.Wall = 500 * time.Millisecond
		_, stuck := io.Pipe() // nobody reads, nobody closes
		streams.Stdout = stuck
		res, err := b.Run(t.Context(), s, streams)
		if err != nil || res.Reason != job.ReasonTimeoutWall {
			t.Errorf("%s: result %+v, %v", name, res, err)
		}
		_ = stuck.Close() // ends the copy that was left behind
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestTerminalFollowsTheOperators(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec(`stty size; until [ "$(stty size)" = "30 40" ]; do sleep 0.05; done; read word; echo "got $word"`)
	s.Steps[0].TTY = true
	s.Limits.Wall = 3 * time.Minute
	sizes := make(chan runner.Size, 1)
	sizes <- runner.Size{Rows: 30, Cols: 40}
	res, err := b.Run(t.Context(), s, runner.Streams{
		Stdin: strings.NewReader("typed\n"), Stdout: &b.stdout, Rows: 10, Cols: 20, Resize: sizes,
	})
	if err != nil || res.Exit != 0 || !strings.Contains(b.stdout.String(), "got typed") {
		t.Errorf("result %+v, %v, stdout %q", res, err, b.stdout.String())
	}
}

func TestChangesAndFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cache := t.TempDir()
	s := b.spec("echo new >new; rm given; mkdir r; echo report >r/x.xml; echo c >/cache/c; exit 2")
	s.Mounts = append(s.Mounts, job.Mount{Source: cache, Target: "/cache", Mode: job.MountOverlay})
	s.Changes, s.Collect = job.ChangesContent, []string{"r/*.xml"}
	out := t.TempDir()
	got := map[string][]job.Change{}
	take := func(target string) func(*workspace.Diff) {
		return func(d *workspace.Diff) { got[target] = d.Changes(); _ = d.Close() }
	}
	res, err := b.Run(t.Context(), s, runner.Streams{
		Collected: func(ctx context.Context, r io.Reader) error {
			_, err := workspace.Collect(ctx, r, out, workspace.Limits{Bytes: 1 << 20, Entries: 100})
			return err
		},
		Changed: map[string]func(*workspace.Diff){job.WorkspaceDir: take("ws"), "/cache": take("cache")},
	})
	if err != nil || res.Exit != 2 {
		t.Fatalf("result %+v, %v", res, err)
	}
	want := []job.Change{{Path: "given", Kind: job.Deleted}, {Path: "new", Kind: job.Added}, {Path: "r/x.xml", Kind: job.Added}}
	if !slices.Equal(res.Changes, want) || !slices.Equal(got["ws"], want) {
		t.Errorf("changes %v, handed back %v", res.Changes, got["ws"])
	}
	if want := []job.Change{{Path: "c", Kind: job.Added}}; !slices.Equal(got["cache"], want) {
		t.Errorf("cache: %v", got["cache"])
	}
	if data, err := os.ReadFile(filepath.Join(out, "r/x.xml")); err != nil || string(data) != "report\n" {
		t.Errorf("collected %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "new")); err == nil {
		t.Error("the job wrote to the host's workspace")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*job.Spec)
		code job.Reason
	}{
		"invalid": {func(s *job.Spec) { s.Steps = nil }, job.ReasonRejected},
		"network": {func(s *job.Spec) { s.Steps[0].Network = job.NetworkRegistries }, job.ReasonPolicyUnsupported},
		"image":   {func(s *job.Spec) { s.Root = job.Root{Kind: job.RootImage, Image: "sha256:" + strings.Repeat("0", 64)} }, job.ReasonImageUnknown},
		"source":  {func(s *job.Spec) { s.Mounts[0].Source = "/no/such/dir" }, job.ReasonSandboxUnavailable},
	} {
		b := newBench(t)
		s := b.spec("echo never")
		c.edit(&s)
		res, err := b.run(t.Context(), s)
		if job.Reason(fault.Code(err)) != c.code || res.Reason != c.code || fault.Hint(err) == "" || b.stdout.Len() > 0 {
			t.Errorf("%s: result %+v, %v; want %s", name, res, err, c.code)
		}
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	b := newBench(t)
	ignore := goleak.IgnoreCurrent()
	if res, err := b.run(t.Context(), b.spec("echo x")); err != nil || res.Exit != 0 {
		t.Fatalf("result %+v, %v", res, err)
	}
	if err := leak.Find(ignore); err != nil {
		t.Error(err)
	}
}
