package agent_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/sandbox"
)

func atoi(tb testing.TB, s string) int {
	tb.Helper()
	n, err := strconv.Atoi(s)
	must(tb, err)
	return n
}

// size of a file in the sandbox.
func fileSize(t *testing.T, b *box, path string) int64 {
	t.Helper()
	fi, err := b.Stat(t.Context(), path)
	must(t, err)
	return fi.Size
}

// mustGrow waits until a process writes to the file.
func mustGrow(t *testing.T, b *box, path string) {
	t.Helper()
	before := fileSize(t, b, path)
	until(t, path+" grows", func() bool { return fileSize(t, b, path) > before })
}

// grows says whether an escaped process still writes to the file.
func grows(t *testing.T, b *box, path string) bool {
	t.Helper()
	before := fileSize(t, b, path)
	time.Sleep(200 * time.Millisecond)
	return fileSize(t, b, path) > before
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	cmd := with(command("trap 'echo term' TERM; /test/escape /tmp/escaped; echo ready; while :; do sleep 0.1; done"), func(c *agent.Command) {
		c.Timeout, c.Grace = 3*time.Second, 2*time.Second // the shell looks for signals between sleeps
	})
	start := time.Now()
	got := run(t, b.Client, cmd, nil)
	took := time.Since(start)
	if !got.TimedOut || got.Signal != int(syscall.SIGKILL) || got.Code != 137 {
		t.Errorf("%+v", got)
	}
	if got.stdout != "ready\nterm\n" {
		t.Errorf("stdout %q: no SIGTERM before SIGKILL?", got.stdout)
	}
	if took < 4900*time.Millisecond || took > patience {
		t.Error("it took", took)
	}
	if grows(t, b, "/tmp/escaped") {
		t.Error("a process has escaped by a double fork")
	}
	if n := others(t, b); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	t.Run("in time", func(t *testing.T) {
		cmd := with(command("exit 3"), func(c *agent.Command) { c.Timeout = time.Minute })
		if got := run(t, b.Client, cmd, nil); got.TimedOut || got.Code != 3 {
			t.Errorf("%+v", got)
		}
	})
}

// TestTimeoutBesideOthers ends one command's tree and leaves the other alone.
func TestTimeoutBesideOthers(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lockedBuffer{}
	other, err := b.Exec(ctx, command("/test/escape /tmp/other; echo ready; sleep 100"), agent.Stdio{Stdout: out})
	must(t, err)
	until(t, "the other is ready", func() bool { return strings.Contains(out.String(), "ready") })
	script := "(trap '' TERM; setsid sh -c 'while :; do echo x >> /tmp/session; sleep 0.02; done') & sleep 100"
	got := run(t, b.Client, with(command(script), func(c *agent.Command) {
		c.Timeout, c.Grace = 3*time.Second, 100*time.Millisecond
	}), nil)
	if !got.TimedOut {
		t.Errorf("%+v", got)
	}
	if fileSize(t, b, "/tmp/session") == 0 || grows(t, b, "/tmp/session") {
		t.Error("a child in a session of its own didn't run, or still does")
	}
	mustGrow(t, b, "/tmp/other") // it wasn't killed too
	cancel()
	_, _ = other.Wait()
}

func TestKillAll(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	for i := range 3 {
		path := fmt.Sprintf("/tmp/escaped%d", i)
		if got := run(t, b.Client, command("/test/escape "+path), nil); got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		mustGrow(t, b, path) // or this test shows nothing
	}
	out := &lockedBuffer{}
	polite, err := b.Exec(t.Context(), command("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"), agent.Stdio{Stdout: out})
	must(t, err)
	stopped, err := b.Exec(t.Context(), command("kill -STOP $$"), agent.Stdio{})
	must(t, err)
	until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
	must(t, b.KillAll(t.Context(), 3*time.Second))
	if n := others(t, b); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if exit, err := polite.Wait(); err != nil || exit.Code != 0 || !strings.Contains(out.String(), "bye") {
		t.Errorf("no time for a goodbye: %+v, %v", exit, err)
	}
	if exit, err := stopped.Wait(); err != nil || exit.Signal == 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	start := time.Now()
	must(t, b.KillAll(t.Context(), 3*patience))
	if took := time.Since(start); took > patience {
		t.Error("killing nobody took", took)
	}
}

func TestForkBomb(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	bomb := "f() { while :; do echo x; sh -c 'sleep 0.2' & sleep 0.01; done; }; f & f & wait"
	out := &lockedBuffer{}
	p, err := b.Exec(t.Context(), command(bomb), agent.Stdio{Stdout: out})
	must(t, err)
	until(t, "it has forked often", func() bool { return strings.Count(out.String(), "x") > 20 })
	must(t, b.KillAll(t.Context(), 0))
	if n := others(t, b); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if exit, err := p.Wait(); err != nil || exit.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestOrphans are reaped and don't hold back the end of a command although they
// keep its stdout open, also when they write to it for ever.
func TestOrphans(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	for name, script := range map[string]string{
		"silent": "sleep 1000 & echo hi",
		"noisy":  "yes & echo hi",
	} {
		start := time.Now()
		got := run(t, b.Client, command(script), nil)
		if took := time.Since(start); took > patience || !strings.Contains(got.stdout, "hi\n") {
			t.Errorf("%s: after %v: %+v, %d bytes", name, took, got.Exit, len(got.stdout))
		}
	}
	must(t, b.KillAll(t.Context(), 0))
	run(t, b.Client, command("for i in 1 2 3 4 5; do (sleep 0.01 &) ; done"), nil)
	until(t, "orphans are reaped", func() bool { return others(t, b) == 0 })
	t.Run("last words of a child", func(t *testing.T) {
		until(t, "they come", func() bool { // a busy machine may be too late for them
			return run(t, b.Client, command("(sleep 0.03; echo late) & echo hi"), nil).stdout == "hi\nlate\n"
		})
	})
}

func TestHostVanishes(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	out := &lockedBuffer{}
	p, err := b.Exec(t.Context(), command("trap '' TERM HUP; /test/escape /tmp/escaped; echo ready; while :; do sleep 1; done"), agent.Stdio{Stdout: out})
	must(t, err)
	until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
	b.Close()
	select {
	case <-b.done:
	case <-time.After(patience):
		t.Fatal("the sandbox outlives its host")
	}
	if _, err := p.Wait(); err == nil {
		t.Error("the outcome of a lost command is known")
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	must(t, b.Shutdown(t.Context()))
	select {
	case <-b.done:
	case <-time.After(patience):
		t.Fatal("the sandbox is still there")
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, b.stderr)
	}
	if err := b.Ping(t.Context()); err == nil {
		t.Error("a ping was answered by nobody")
	}
}

// TestAgentOutOfReach runs every probe against the agent, as the job and as uid 0,
// and against an unprotected process, where all must work: that shows that the
// probes can tell.
func TestAgentOutOfReach(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	probe := func(uid uint32, target string) ended {
		return run(t, b.Client, with(command(""), func(c *agent.Command) {
			c.Argv, c.UID, c.GID = []string{"/test/hijack", target}, uid, uid
		}), nil)
	}
	count := func(e ended, answer string) int { return strings.Count(e.stdout, answer+"\n") }
	control := probe(sandbox.JobUID, "child")
	const probes = 20
	if count(control, " yes") != probes {
		t.Fatalf("against an unprotected process %d of %d probes work:\n%s", count(control, " yes"), probes, control.stdout)
	}
	for _, uid := range []uint32{sandbox.JobUID, 0} {
		got := probe(uid, "1")
		if count(got, " no") != probes || count(got, " yes") != 0 {
			t.Errorf("uid %d reaches the agent:\n%s", uid, got.stdout)
		}
		must(t, b.Ping(t.Context()))
	}
	if got := run(t, b.Client, command("ls /.quavon /proc/1/fd /proc/1/task/1/fd"), nil); got.stdout != "" || got.Code == 0 {
		t.Errorf("%+v", got)
	}
}

// TestOwnUID starts the agent under the job's uid, as rootless, or under uid 0, as
// in a virtual machine: it takes its own.
func TestOwnUID(t *testing.T) {
	t.Parallel()
	for _, uid := range []uint32{sandbox.JobUID, 0} {
		b := bareRuntime(t, sandbox.GuestBinary, "init")
		b.uid = uid
		dial(t, b)
		must(t, b.Setup(t.Context(), standardSetup))
		got := run(t, b.Client, command("grep -E '^(Uid|Gid|CapEff)' /proc/1/status; echo x > /tmp/x; echo x > /workspace/x"), nil)
		want := "Uid:\t65533\t65533\t65533\t65533\nGid:\t65533\t65533\t65533\t65533\nCapEff:\t00000000000000ff\n"
		if got.stdout != want || got.stderr != "" {
			t.Errorf("%+v", got)
		}
		if got := run(t, b.Client, command("/test/hijack 1 | grep -c no"), nil); got.stdout != "20\n" {
			t.Errorf("%+v", got)
		}
	}
}

// TestStoppedStart has a job that stops every process it may, also those which
// have just taken its uid and not yet become a command. The agent still answers,
// and ends them all.
func TestStoppedStart(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	out := &lockedBuffer{}
	_, err := b.Exec(t.Context(), with(command(""), func(c *agent.Command) { c.Argv = []string{"/test/stopper"} }), agent.Stdio{Stdout: out})
	must(t, err)
	until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for range 10 {
		_, err := b.Exec(ctx, command("true"), agent.Stdio{})
		must(t, err)
		must(t, b.Ping(ctx))
	}
	must(t, b.KillAll(ctx, 10*time.Millisecond))
	until(t, "all have ended", func() bool { return others(t, b) == 0 })
}
