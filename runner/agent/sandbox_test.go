package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/test/leak"
	"github.com/quavon/quavon/test/need"
)

// builtDir is where built has put them, "" before.
var builtDir string

// built is where the static binaries that the tests need are made, once.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "quavon-agent-test-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // jobs run what is in it
		return "", err
	}
	guest := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "guest"), "../../cmd/quavon-guest")
	guest.Env = append(os.Environ(), "CGO_ENABLED=0")
	builds := []*exec.Cmd{guest}
	sources, err := filepath.Glob("testdata/*.c")
	for _, src := range sources {
		out := filepath.Join(dir, strings.TrimSuffix(filepath.Base(src), ".c"))
		builds = append(builds, exec.Command("gcc", "-static", "-O2", "-Wall", "-Werror", "-o", out, src))
	}
	for _, b := range builds {
		if out, err := b.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", b.Args, err, out)
		}
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := leak.Main(m)
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

// testBinary is the path of a static test binary.
func testBinary(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func runsc(tb testing.TB) string {
	tb.Helper()
	need.That(tb, os.Getuid() == 0, "root")
	if p := os.Getenv("QUAVON_RUNSC"); p != "" {
		return p
	}
	p, err := filepath.Abs("../../bin/runsc")
	if err == nil {
		_, err = os.Stat(p)
	}
	need.That(tb, err == nil, "bin/runsc (make) or $QUAVON_RUNSC")
	return p
}

// box is a sandbox under the real runsc with the agent as its first process.
type box struct {
	*agent.Client
	cmd    *exec.Cmd
	stderr *lockedBuffer
	lower  string   // LowerDir/0 on the host
	args   []string // the first process
	uid    uint32   // and its uid
	dir    string
	done   chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

const workspace = "/workspace"

// standardSetup is an overlay as the workspace, a read-only .git, and /tmp.
var standardSetup = agent.Setup{
	Overlays: []agent.Overlay{{Lower: sandbox.LowerDir + "/0", Target: workspace, Protect: []string{".git"}}},
	Dirs: []agent.Dir{
		{Path: "/tmp", Mode: 0o777 | os.ModeSticky},
		{Path: "/home/job", Mode: 0o700, UID: sandbox.JobUID, GID: sandbox.JobUID},
	},
}

// startBox starts a sandbox and sets it up.
func startBox(tb testing.TB) *box {
	tb.Helper()
	b := startRuntime(tb, sandbox.GuestBinary, "init")
	if err := b.Setup(tb.Context(), standardSetup); err != nil {
		tb.Fatalf("setup: %v\n%s", err, b.stderr)
	}
	return b
}

func startRuntime(tb testing.TB, args ...string) *box {
	tb.Helper()
	b := bareRuntime(tb, args...)
	dial(tb, b)
	return b
}

// dial starts the sandbox and shakes hands with its agent.
func dial(tb testing.TB, b *box) {
	tb.Helper()
	stdin, stdout := pipes(tb, b)
	conn, err := wire.NewFiles(stdout, stdin)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	b.Client, err = agent.Dial(ctx, conn)
	if err != nil {
		tb.Fatalf("dial: %v\n%s", err, b.stderr)
	}
	tb.Cleanup(b.Close)
}

// pipes starts the runtime and returns the ends of its stdin and stdout.
func pipes(tb testing.TB, b *box) (stdin, stdout *os.File) {
	tb.Helper()
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		tb.Fatal(err1, err2)
	}
	writeConfig(tb, b)
	b.cmd.Stdin, b.cmd.Stdout = inR, outW
	if err := b.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	inR.Close()
	outW.Close()
	go func() {
		defer close(b.done)
		b.cmd.Wait()
	}()
	tb.Cleanup(func() {
		inW.Close()
		outR.Close()
		select {
		case <-b.done:
		case <-time.After(patience):
			tb.Errorf("the sandbox is still there %v after its host has gone\n%s", patience, b.stderr)
			b.cmd.Process.Kill()
		}
		// runsc keeps an empty network namespace mounted in its state directory.
		syscall.Unmount(filepath.Join(b.dir, "state/null-netns"), syscall.MNT_DETACH)
	})
	return inW, outR
}

// bareRuntime prepares a bundle with args as the first process.
func bareRuntime(tb testing.TB, args ...string) *box {
	tb.Helper()
	bin := runsc(tb)
	dir := tb.TempDir()
	b := &box{dir: dir, lower: filepath.Join(dir, "lower"), uid: sandbox.AgentUID, stderr: &lockedBuffer{}, done: make(chan struct{})}
	makeTree(tb, b)
	b.args = args
	b.cmd = exec.Command(bin, "--root", filepath.Join(dir, "state"), "--platform=systrap", "--network=none",
		"--ignore-cgroups", "--overlay2=none", "run", "--bundle", dir, "agent")
	b.cmd.Stderr = b.stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return b
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// command is a shell script run as the job.
func command(script string) agent.Command {
	return agent.Command{
		Argv: []string{"/bin/sh", "-c", script}, Dir: "/",
		Env: []string{"PATH=/usr/bin:/bin"}, UID: sandbox.JobUID, GID: sandbox.JobUID,
	}
}

type ended struct {
	agent.Exit
	stdout, stderr string
}

// run runs a command to its end.
func run(tb testing.TB, c *agent.Client, cmd agent.Command, stdin io.Reader) ended {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*patience)
	defer cancel()
	var out, errOut bytes.Buffer
	p, err := c.Exec(ctx, cmd, agent.Stdio{Stdin: stdin, Stdout: &out, Stderr: &errOut})
	if err != nil {
		tb.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		tb.Fatalf("%v: %v", cmd.Argv, err)
	}
	return ended{exit, out.String(), errOut.String()}
}
