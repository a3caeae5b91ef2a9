package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/sandbox"
)

// with changes a command.
func with(c agent.Command, f func(*agent.Command)) agent.Command {
	f(&c)
	return c
}

func TestCommands(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	argv := func(args ...string) agent.Command {
		return with(command(""), func(c *agent.Command) { c.Argv = args })
	}
	for name, test := range map[string]struct {
		cmd            agent.Command
		stdin          string
		want           agent.Exit
		stdout, stderr string // wanted parts
		startError     string
	}{
		"success":          {cmd: command("echo out; echo err >&2"), stdout: "out\n", stderr: "err\n"},
		"exit code":        {cmd: command("exit 42"), want: agent.Exit{Code: 42}},
		"signal":           {cmd: command("kill -SEGV $$"), want: agent.Exit{Code: 139, Signal: 11}},
		"by PATH":          {cmd: argv("echo", "hi"), stdout: "hi\n"},
		"not in PATH":      {cmd: argv("no-such-program"), want: agent.Exit{Code: 127}, startError: "not found"},
		"no such file":     {cmd: argv("/no/such/program"), want: agent.Exit{Code: 127}, startError: "/no/such/program"},
		"not executable":   {cmd: argv("/workspace/old.txt"), want: agent.Exit{Code: 126}, startError: "old.txt"},
		"a directory":      {cmd: argv("/usr"), want: agent.Exit{Code: 126}, startError: "/usr"},
		"no directory":     {cmd: with(command("true"), func(c *agent.Command) { c.Dir = "/nowhere" }), want: agent.Exit{Code: 126}, startError: "/nowhere"},
		"directory":        {cmd: with(command("pwd"), func(c *agent.Command) { c.Dir = workspace }), stdout: "/workspace\n"},
		"environment":      {cmd: with(argv("/usr/bin/env"), func(c *agent.Command) { c.Env = []string{"A=1", "B=\xff \n"} }), stdout: "A=1\nB=\xff \n\n"},
		"/dev/stdout":      {cmd: command("echo out >/dev/stdout; echo err >/dev/stderr"), stdout: "out\n", stderr: "err\n"},
		"stdin":            {cmd: command("cat; echo end"), stdin: "some text", stdout: "some textend\n"},
		"no stdin":         {cmd: command("cat; echo end"), stdout: "end\n"},
		"unread stdin":     {cmd: command("true"), stdin: strings.Repeat("x", 10<<20)},
		"ids":              {cmd: with(command("id -u; id -g; id -G"), func(c *agent.Command) { c.Groups = []uint32{7, 8} }), stdout: "60000\n60000\n60000 7 8\n"},
		"own session":      {cmd: command("set -- $(cat /proc/self/stat); test $6 = $$")},
		"no capabilities":  {cmd: command("grep -c 'Cap.*:.0000000000000000$' /proc/self/status; grep NoNewPrivs /proc/self/status"), stdout: "5\nNoNewPrivs:\t1\n"},
		"none as root":     {cmd: with(command("grep -c 'Cap.*:.0000000000000000$' /proc/self/status"), func(c *agent.Command) { c.UID, c.GID = 0, 0 }), stdout: "5\n"},
		"default signals":  {cmd: argv("/test/signals"), stdout: "done\n"},
		"only its streams": {cmd: command("ls /proc/self/fd | grep -v '^[0-3]$'"), want: agent.Exit{Code: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var stdin io.Reader
			if test.stdin != "" {
				stdin = strings.NewReader(test.stdin)
			}
			got := run(t, b.Client, test.cmd, stdin)
			if !strings.Contains(got.StartError, test.startError) || (test.startError == "") != (got.StartError == "") {
				t.Errorf("start error %q", got.StartError)
			}
			if !strings.HasPrefix(got.stdout, test.stdout) || !strings.Contains(got.stderr, test.stderr) {
				t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
			}
			got.StartError, got.Usage = "", test.want.Usage
			if got.Exit != test.want {
				t.Errorf("%+v, want %+v", got.Exit, test.want)
			}
		})
	}
	t.Run("control of default signals", func(t *testing.T) {
		got := run(t, b.Client, command("trap '' USR1; exec /test/signals"), nil)
		if got.stdout != "10 ignored\ndone\n" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("usage", func(t *testing.T) {
		got := run(t, b.Client, command("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"), nil)
		if got.Usage.User < 10*time.Millisecond || got.Usage.MaxRSS < 1<<20 {
			t.Errorf("%+v", got.Usage)
		}
	})
	t.Run("agent's own id", func(t *testing.T) {
		for _, cmd := range []agent.Command{
			with(command("true"), func(c *agent.Command) { c.UID = sandbox.AgentUID }),
			with(command("true"), func(c *agent.Command) { c.Groups = []uint32{sandbox.AgentUID} }),
			with(command("true"), func(c *agent.Command) { c.UID = 1<<32 - 1 }),
		} {
			p, err := b.Exec(t.Context(), cmd, agent.Stdio{})
			if err == nil {
				_, err = p.Wait()
			}
			var remote *agent.RemoteError
			if !errors.As(err, &remote) {
				t.Errorf("a command got an id of the agent: %v", err)
			}
		}
	})
}

func TestLargeOutputBothWays(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	data := bytes.Repeat([]byte("0123456789abcde\n"), 24<<20/16)
	got := run(t, b.Client, command("tee /dev/stderr"), bytes.NewReader(data))
	want := sha256.Sum256(data)
	for _, s := range []string{got.stdout, got.stderr} {
		if sha256.Sum256([]byte(s)) != want {
			t.Errorf("%d bytes went in and %d others came out", len(data), len(s))
		}
	}
}

// blockedWriter takes nothing until it is released.
type blockedWriter struct{ release chan struct{} }

func (w *blockedWriter) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

func TestStalledOutput(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	w := &blockedWriter{make(chan struct{})}
	stalled, err := b.Exec(t.Context(), command("head -c 50000000 /dev/zero"), agent.Stdio{Stdout: w})
	must(t, err)
	time.Sleep(300 * time.Millisecond) // all buffers on the way are full by now
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, b.Ping(ctx))
	if got := run(t, b.Client, command("echo other"), nil); got.stdout != "other\n" {
		t.Errorf("%+v", got)
	}
	close(w.release)
	exit, err := stalled.Wait()
	if err != nil || exit.Code != 0 {
		t.Error(exit, err)
	}
}

func TestFailingOutput(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	broken := errors.New("disk full")
	p, err := b.Exec(t.Context(), command("head -c 5000000 /dev/zero; exit 5"), agent.Stdio{Stdout: failingWriter{broken}})
	must(t, err)
	if exit, err := p.Wait(); !errors.Is(err, broken) || exit.Code != 5 {
		t.Errorf("%+v, %v", exit, err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestSignalAndCancel(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	t.Run("signal", func(t *testing.T) {
		out := &lockedBuffer{}
		p, err := b.Exec(t.Context(), command("trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done"), agent.Stdio{Stdout: out})
		must(t, err)
		until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
		must(t, p.Signal(syscall.SIGUSR1))
		if exit, err := p.Wait(); err != nil || exit.Code != 9 || !strings.Contains(out.String(), "caught") {
			t.Errorf("%+v, %v, %q", exit, err, out)
		}
		must(t, p.Signal(syscall.SIGUSR1)) // too late is no error
	})
	t.Run("signal before the start", func(t *testing.T) {
		p, err := b.Exec(t.Context(), command("sleep 100"), agent.Stdio{})
		must(t, err)
		must(t, p.Signal(syscall.SIGTERM))
		if exit, err := p.Wait(); err != nil || exit.Signal != int(syscall.SIGTERM) {
			t.Errorf("%+v, %v", exit, err)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		out := &lockedBuffer{}
		p, err := b.Exec(ctx, command("/test/escape /tmp/cancelled; echo ready; sleep 100"), agent.Stdio{Stdout: out})
		must(t, err)
		until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
		cancel(why)
		if _, err := p.Wait(); !errors.Is(err, why) {
			t.Error(err)
		}
		until(t, "all of it has ended", func() bool { return others(t, b) == 0 })
	})
}

// patience is for what is sure to come, and soon, on a machine that isn't busy.
const patience = time.Minute

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

// others counts the processes in the sandbox besides the agent and the counter.
func others(t *testing.T, b *box) int {
	t.Helper()
	got := run(t, b.Client, command("set -- /proc/[0-9]*; echo $#"), nil)
	n := strings.TrimSpace(got.stdout)
	if n == "" {
		t.Fatalf("%+v", got)
	}
	return atoi(t, n) - 2
}

func TestTTY(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	in, typing := io.Pipe()
	out := &lockedBuffer{}
	script := "test -t 0 && test -t 1 && test -t 2 && tty; stty size; read line; echo got $line; stty size; read line || echo over"
	cmd := with(command(script), func(c *agent.Command) { c.TTY, c.Rows, c.Cols = true, 24, 80 })
	p, err := b.Exec(t.Context(), cmd, agent.Stdio{Stdin: in, Stdout: out})
	must(t, err)
	sees := func(s string) { until(t, "it prints "+s, func() bool { return strings.Contains(out.String(), s) }) }
	sees("/dev/pts/")
	sees("24 80\r\n")
	must(t, p.Resize(40, 132))
	_, err = typing.Write([]byte("one\n"))
	must(t, err)
	sees("got one")
	sees("40 132")
	must(t, typing.Close())
	sees("over")
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v, %q", exit, err, out)
	}
	t.Run("interrupt", func(t *testing.T) {
		out := &lockedBuffer{}
		in, typing := io.Pipe()
		cmd := with(command("echo ready; sleep 100"), func(c *agent.Command) { c.TTY, c.Rows, c.Cols = true, 24, 80 })
		p, err := b.Exec(t.Context(), cmd, agent.Stdio{Stdin: in, Stdout: out})
		must(t, err)
		until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
		_, err = typing.Write([]byte{3})
		must(t, err)
		if exit, err := p.Wait(); err != nil || exit.Signal != int(syscall.SIGINT) {
			t.Errorf("%+v, %v", exit, err)
		}
		must(t, typing.Close())
	})
}
