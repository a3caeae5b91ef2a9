package agent_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/test/need"
)

// startOutside runs the guest on the host's own kernel, where it isn't the first
// process and so finds the job's processes by their ancestry.
func startOutside(t *testing.T) (*agent.Client, *exec.Cmd) {
	t.Helper()
	need.That(t, os.Getuid() == 0, "root")
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	must(t, errors.Join(err1, err2))
	cmd := exec.Command(testBinary(t, "guest"), "init")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, os.Stderr
	must(t, cmd.Start())
	must(t, errors.Join(inR.Close(), outW.Close()))
	conn, err := wire.NewFiles(outR, inW)
	must(t, err)
	c, err := agent.Dial(t.Context(), conn)
	must(t, err)
	t.Cleanup(c.Close)
	must(t, c.Setup(t.Context(), agent.Setup{}))
	return c, cmd
}

func TestOutsideSandbox(t *testing.T) {
	t.Parallel()
	c, cmd := startOutside(t)
	got := run(t, c, command("id -u; grep -c 'Cap.*:.0000000000000000$' /proc/self/status; cat >&2"), strings.NewReader("in"))
	if got.stdout != "60000\n5\n" || got.stderr != "in" || got.Code != 0 {
		t.Errorf("%+v", got)
	}
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chown(dir, sandbox.JobUID, sandbox.JobUID))
	// escape starts a process that gets away, and waits until it is seen to write.
	escape := func(name string) (grows func() bool) {
		path := filepath.Join(dir, name)
		got := run(t, c, with(command(""), func(c *agent.Command) { c.Argv = []string{testBinary(t, "escape"), path} }), nil)
		if got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		size := func() int64 {
			fi, err := os.Stat(path)
			must(t, err)
			return fi.Size()
		}
		begun := size()
		until(t, "it escapes", func() bool { return size() > begun })
		return func() bool {
			before := size()
			time.Sleep(100 * time.Millisecond)
			return size() > before
		}
	}
	grows := escape("killed")
	must(t, c.KillAll(t.Context(), 50*time.Millisecond))
	if grows() {
		t.Error("a process has escaped by a double fork")
	}
	grows = escape("host vanishes")
	c.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if grows() {
		t.Error("a process outlives the agent")
	}
}

// TestAgentKilled: what a lost agent leaves behind is the sandbox's to end, and
// the host learns of the loss.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	c, cmd := startOutside(t)
	in, typing := io.Pipe()
	defer typing.Close()
	p, err := c.Exec(t.Context(), command("cat"), agent.Stdio{Stdin: in}) // ends after the agent
	must(t, err)
	must(t, c.Ping(t.Context()))
	must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait() // killed
	if _, err := p.Wait(); !errors.Is(err, wire.ErrPeerGone) {
		t.Error(err)
	}
	<-c.Done()
}
