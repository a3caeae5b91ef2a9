package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/hostlist"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
	workspacefiles "github.com/quavon/quavon/runner/workspace"
	"github.com/quavon/quavon/test/need"
)

// testTime bounds each test; nothing in here takes long on a healthy host.
const testTime = 2 * time.Minute

// suite is one backend under test.
type suite struct {
	f       Factory
	dir     string
	config  sandbox.Config
	backend sandbox.Backend
	probe   string
	lister  *hostlist.Lister
	before  hostlist.Snapshot
	count   atomic.Int32
}

func newSuite(t *testing.T, f Factory) *suite {
	t.Helper()
	dir := statetest.Path(t)
	b, err := f.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); err != nil {
		need.Skip(t, "backend %s can't run here: %v", b.Name(), err)
	}
	s := &suite{f: f, dir: dir, backend: b, config: f.Config(t, dir), probe: filepath.Dir(sandboxtest.Probe(t))}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.lister = hostlist.New([]string{dir}, append(f.Programs, self), []string{ids()})
	s.lister.More = f.Objects
	if _, err := b.Reap(t.Context()); err != nil {
		t.Errorf("reap: %v", err)
	}
	// The first sandbox may make what is kept for all, such as a directory.
	s.start(t, job.Limits{}).stop(t)
	s.before = s.lister.Take()
	return s
}

// nothingLeft compares the host with how it was.
func (s *suite) nothingLeft(t *testing.T) {
	t.Helper()
	if d := s.lister.Settle(t.Context(), s.before, holdTime+5*time.Second); d != nil {
		t.Errorf("the host is not as it was:")
		for _, line := range d {
			t.Error(line)
		}
	}
}

// enforces says whether the backend enforces a policy. If it doesn't it must
// refuse a job that asks for it, which is then all there is to test.
func (s *suite) enforces(t *testing.T, p sandbox.Policy, l job.Limits) bool {
	t.Helper()
	if why, ok := s.backend.Policies()[p]; ok && why == sandbox.Enforced {
		return true
	}
	err := sandbox.Admit(s.backend, job.Spec{Limits: l})
	s.refused(t, err, p)
	return false
}

// ids is what all of this process's sandboxes' ids begin with.
func ids() string { return fmt.Sprintf("conformance-%d-", os.Getpid()) }

// nextConfig is a configuration of its own, with a workspace and the probe.
func (s *suite) nextConfig(l job.Limits, workspace string) sandbox.Config {
	c := s.config
	c.ID = fmt.Sprintf("%s%d", ids(), s.count.Add(1))
	c.Mounts = []job.Mount{{Source: workspace}, {Source: s.probe}}
	c.Limits = l
	return c
}

// Places of every test's sandbox.
const (
	workspace = "/workspace"
	probe     = "/mnt/probe"
)

// box is a started sandbox whose view is arranged.
type box struct {
	sandbox.Sandbox
	*agent.Client
	// workspace is its host directory.
	workspace string
}

// start starts a sandbox whose workspace was filled first.
func (s *suite) start(t *testing.T, l job.Limits, fill ...func(dir string)) *box {
	t.Helper()
	ws := statetest.Path(t)
	own(t, ws)
	for _, f := range fill {
		f(ws)
	}
	b, err := s.open(t, s.nextConfig(l, ws))
	if err != nil {
		t.Fatal(err)
	}
	b.workspace = ws
	return b
}

// own gives a directory to an ordinary user, as workspaces of root's have.
func own(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(dir, 12345, 12346); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) open(t *testing.T, c sandbox.Config) (*box, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTime, errors.New("the sandbox did not start in time"))
	defer cancel()
	sb, err := s.backend.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := sb.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	client, err := agent.Dial(ctx, sb.Conn())
	if err != nil {
		<-sb.Done()
		return nil, fmt.Errorf("%w: %+v", err, sb.Ended())
	}
	t.Cleanup(client.Close)
	if err := load(ctx, s.backend, client, c); err != nil {
		return nil, err
	}
	scratch := func(path string) agent.Dir {
		return agent.Dir{Path: path, Mode: 0o700, UID: sandbox.JobUID, GID: sandbox.JobUID}
	}
	err = client.Setup(ctx, agent.Setup{
		Overlays: []agent.Overlay{{Lower: sandbox.LowerDir + "/0", Target: workspace}},
		Binds:    []agent.Bind{{Source: sandbox.LowerDir + "/1", Target: filepath.Dir(probe)}},
		Dirs:     []agent.Dir{scratch("/tmp"), scratch("/dev/shm")},
	})
	return &box{Sandbox: sb, Client: client}, err
}

// load copies the mounts into a sandbox that can't see them.
func load(ctx context.Context, b sandbox.Backend, client *agent.Client, c sandbox.Config) error {
	if sandbox.AsDetached(b) == nil {
		return nil
	}
	for i, m := range c.Mounts {
		for _, part := range []struct {
			whose workspacefiles.Whose
			id    int
		}{{workspacefiles.Owners, sandbox.JobUID}, {workspacefiles.Foreign, 65534}} {
			var buf bytes.Buffer
			if _, err := workspacefiles.Pack(ctx, m.Source, part.whose, &buf); err != nil {
				return err
			}
			if err := client.Put(ctx, fmt.Sprintf("%s/%d", sandbox.LowerDir, i), part.id, part.id, &buf); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *box) stop(t *testing.T) {
	t.Helper()
	if err := b.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("stop: %v", err)
	}
	b.Close()
}

// result is how a command ended.
type result struct {
	agent.Exit
	out, err string
	// lost is why the exit isn't known: the sandbox ended first.
	lost error
}

func (b *box) exec(t *testing.T, in io.Reader, c agent.Command) result {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTime, errors.New("the command did not end in time"))
	defer cancel()
	var out, errOut bytes.Buffer
	p, err := b.Exec(ctx, c, agent.Stdio{Stdin: in, Stdout: &out, Stderr: &errOut})
	if err != nil {
		return result{lost: err}
	}
	e, err := p.Wait()
	return result{Exit: e, out: out.String(), err: errOut.String(), lost: err}
}

// shell runs a script of the job's in the workspace.
func (b *box) shell(t *testing.T, script string) result {
	t.Helper()
	c := command("/bin/sh", "-c", script)
	c.Dir = workspace
	return b.exec(t, nil, c)
}

// must runs a script that has to succeed and returns its output.
func (b *box) must(t *testing.T, script string) string {
	t.Helper()
	r := b.shell(t, script)
	if r.lost != nil || r.Code != 0 {
		t.Fatalf("%s: exit %d, stderr %q, %v", script, r.Code, r.err, r.lost)
	}
	return r.out
}

// waitDone waits for the sandbox's end.
func (b *box) waitDone(t *testing.T) sandbox.End {
	t.Helper()
	select {
	case <-b.Sandbox.Done():
	case <-time.After(testTime):
		t.Fatal("the sandbox does not end")
	}
	return b.Ended()
}
