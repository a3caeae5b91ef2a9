package commands

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/commands/iostreams"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

var everything = sandbox.Policies{
	sandbox.PolicyMemory: sandbox.Enforced, sandbox.PolicyCPU: sandbox.Enforced,
	sandbox.PolicyPids: sandbox.Enforced, sandbox.PolicyDisk: sandbox.Enforced,
}

// specFor is the job that a command line of quavon run asks for.
func specFor(t *testing.T, have sandbox.Policies, env map[string]string, args ...string) job.Spec {
	t.Helper()
	p := &program{
		IO:        &iostreams.Streams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard},
		Log:       slog.New(slog.DiscardHandler),
		LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok },
	}
	var spec job.Spec
	cmd := newRun(p, func(_ context.Context, o *runOptions) (err error) {
		spec, err = o.spec(have)
		return err
	})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if err := spec.Validate(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return spec
}

func TestSpecOfACommandLine(t *testing.T) {
	t.Parallel()
	ws, cache, tool := t.TempDir(), t.TempDir(), t.TempDir()
	s := specFor(t, everything, nil,
		"-w", ws, "--write", "--cache", cache, "--ro", tool+":/opt/x", "--cpus", "1.5", "--memory", "1GiB", "--pids", "7", "--disk", "2G",
		"--timeout", "90s", "--output-limit", "1k", "--collect", "a", "--collect", "b/*", "--out", ws, "-e", "A=1", "-t", "make", "-w", "test")
	want := job.Spec{
		ID: s.ID, Root: job.Root{Kind: job.RootHost},
		Mounts: []job.Mount{
			{Source: ws, Target: "/workspace", Mode: job.MountOverlay, Protect: []string{".git"}},
			{Source: cache, Target: "/cache", Mode: job.MountOverlay},
			{Source: tool, Target: "/opt/x", Mode: job.MountReadOnly},
		},
		Limits:  job.Limits{Memory: 1 << 30, CPUs: 1.5, Pids: 7, Disk: 2 << 30, Output: 1024, Wall: 90 * time.Second},
		Collect: []string{"a", "b/*"}, Changes: job.ChangesContent,
		Steps: []job.Step{{Argv: []string{"make", "-w", "test"}, Env: s.Steps[0].Env, TTY: true, Network: job.NetworkNone}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for _, e := range []string{"A=1", "TERM=xterm", "GOCACHE=/cache/go-build"} {
		if !slices.Contains(s.Steps[0].Env, e) {
			t.Errorf("%s is missing in %v", e, s.Steps[0].Env)
		}
	}
	if again := specFor(t, everything, nil, "-w", ws, "true"); again.ID == s.ID {
		t.Error("two jobs have the same id")
	}
}

// Defaults that don't hold are left out; requests stay, for the runner to refuse.
func TestLimitsThatAreNotEnforced(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	rootless := sandbox.Policies{sandbox.PolicyMemory: "no", sandbox.PolicyPids: "no", sandbox.PolicyDisk: sandbox.Enforced}
	for _, c := range []struct {
		have sandbox.Policies
		args []string
		want job.Limits
	}{
		{everything, nil, job.Limits{Memory: 4 << 30, Pids: 1024, Disk: 10 << 30, Output: 1 << 30, Wall: time.Hour}},
		{rootless, nil, job.Limits{Disk: 10 << 30, Output: 1 << 30, Wall: time.Hour}},
		{nil, nil, job.Limits{Output: 1 << 30, Wall: time.Hour}},
		{rootless, []string{"--memory", "1GiB"}, job.Limits{Memory: 1 << 30, Disk: 10 << 30, Output: 1 << 30, Wall: time.Hour}},
		{everything, []string{"--memory=0", "--pids=0", "--disk=0", "--output-limit=0", "--timeout=0"}, job.Limits{}},
	} {
		args := slices.Concat([]string{"-w", ws}, c.args, []string{"true"})
		if diff := cmp.Diff(c.want, specFor(t, c.have, nil, args...).Limits); diff != "" {
			t.Errorf("%v with %v: %s", c.args, c.have, diff)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	ws, cache, tool := t.TempDir(), t.TempDir(), t.TempDir()
	caller := map[string]string{"PATH": tool + "/bin:/root/bin", "TERM": "vt100", "SECRET": "x"}
	env := func(args ...string) string {
		return strings.Join(specFor(t, everything, caller, append(args, "true")...).Steps[0].Env, "\n") + "\n"
	}
	plain := env("-w", ws)
	for _, no := range []string{"SECRET", "TERM", "GOCACHE", "/root/bin", tool} {
		if strings.Contains(plain, no) {
			t.Errorf("%s reached the job: %s", no, plain)
		}
	}
	if got := env("-w", ws, "--ro", tool+":/opt/t", "-t", "-e", "SECRET", "-e", "NONE"); !strings.HasPrefix(got, "PATH=/opt/t/bin:") ||
		!strings.Contains(got, "TERM=vt100\nSECRET=x\n") || strings.Contains(got, "NONE") {
		t.Errorf("got %s", got)
	}
	if got := env("-w", ws, "--cache", cache); strings.Contains(got, "GOMODCACHE") {
		t.Errorf("an empty module cache is used: %s", got)
	}
	if err := os.Mkdir(filepath.Join(cache, "go-mod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := env("-w", ws, "--cache", cache); !strings.Contains(got, "GOMODCACHE=/cache/go-mod") {
		t.Errorf("the module cache is not used: %s", got)
	}
}

func TestSplitMount(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		"/a":       {"/a", "/d"},
		"a:/b":     {"a", "/b"},
		"/a:/b/":   {"/a", "/b"},
		"/a:b":     {"/a:b", "/d"},
		"/a:b:/c":  {"/a:b", "/c"},
		"/a:/b/..": {"/a", "/"},
		":/b":      {":/b", "/d"},
	} {
		if dir, target := splitMount(in, "/d"); dir != want[0] || target != want[1] {
			t.Errorf("%s: got %s at %s, want %v", in, dir, target, want)
		}
	}
}
