package docker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/runner/workspace"
)

// bench is a runner on an engine, with captured output.
type bench struct {
	runner.Runner
	out, err bytes.Buffer
}

func newBench(t *testing.T, name, host string, l *lock.File) *bench {
	t.Helper()
	d := statetest.Dir(t)
	b, err := docker.New(docker.Config{Name: name, Host: docker.Endpoint{URL: host, From: "test"}, Lock: l, State: d})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Runner: runner.Runner{Backend: b, Guest: sandboxtest.Guest(t), Spool: d.Path()}}
}

func jobOf(dir, image, user, script string) job.Spec {
	return job.Spec{
		ID:     "job",
		Root:   job.Root{Kind: job.RootImage, Image: image, User: user},
		Mounts: []job.Mount{{Source: dir, Target: job.WorkspaceDir, Mode: job.MountOverlay, Protect: []string{".git"}}},
		Steps:  []job.Step{{Argv: []string{"/bin/sh", "-c", script}}},
		Limits: job.Limits{Memory: 512 << 20, Pids: 100, Disk: 64 << 20},
	}
}

// A whole job: as the image's user, on a copy of the workspace, in a root that it
// may write to, with its changes handed back.
func TestJob(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	img := dockertest.Busybox(t, v1.Config{User: "app", WorkingDir: "/app", Env: []string{"A=b"}, Volumes: map[string]struct{}{"/data": {}}},
		imagetest.Dir("data"), imagetest.File("data/d", "d\n"), imagetest.File("etc/group", "root:x:0:\nother:x:77:app\n"))
	l := engine.Add(t, img)
	config := l.Images[0].Platforms[0].Config
	for _, c := range []struct{ name, user, want string }{
		{docker.Runsc, "", "1000 77 /app b given kept d 2 no network"},
		{docker.Runsc, "root", "0 0 /root b given kept d 2 no network"},
		{docker.Runc, "", "1000 77 /app b given kept d 2 no network"},
	} {
		t.Run(c.name+" "+c.user, func(t *testing.T) {
			host := engine.Host
			if c.name == docker.Runsc {
				host = guarded(t, l, "runsc")
			}
			b := newBench(t, c.name, host, l)
			dir := t.TempDir()
			for name, text := range map[string]string{"given": "given\n", ".git/config": "kept\n", "gone": "x"} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := jobOf(dir, config, c.user, `id -u; id -G | cut -d' ' -f2-; echo $HOME; echo $A; cat given .git/config /data/d; echo new > new; rm gone; echo x > .git/config;
				grep -c localhost /etc/hosts; test $(ls /sys/class/net | grep -vc lo) = 0 && echo no network`)
			s.Changes = job.ChangesContent
			changed := map[string]job.ChangeKind{}
			res, err := b.Run(t.Context(), s, runner.Streams{Stdout: &b.out, Stderr: &b.err, Changed: map[string]func(*workspace.Diff){
				job.WorkspaceDir: func(d *workspace.Diff) {
					for _, ch := range d.Changes() {
						changed[ch.Path] = ch.Kind
					}
					_ = d.Close()
				},
			}})
			if err != nil || res.Exit != 0 {
				t.Fatalf("%+v, %v\n%s%s", res, err, b.out.String(), b.err.String())
			}
			if got := strings.Join(strings.Fields(strings.ReplaceAll(b.out.String(), "\n", " ")), " "); got != c.want {
				t.Errorf("got  %s\nwant %s\n%s", got, c.want, b.err.String())
			}
			if len(changed) != 2 || changed["new"] != job.Added || changed["gone"] != job.Deleted {
				t.Errorf("changes %v", changed)
			}
			t.Logf("%s: phases %v", c.name, res.Phases)
		})
	}
}

// A workspace that doesn't fit is the job's limit, not the sandbox's failure.
func TestWorkspaceLargerThanTheDisk(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	l := engine.Add(t, dockertest.Busybox(t, v1.Config{}))
	b := newBench(t, docker.Runsc, engine.Host, l)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 8<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	s := jobOf(dir, l.Images[0].Platforms[0].Config, "", "true")
	s.Limits.Disk = 4 << 20
	res, err := b.Run(t.Context(), s, runner.Streams{})
	if err != nil || res.Reason != job.ReasonLimitDisk {
		t.Errorf("%+v, %v", res, err)
	}
}
