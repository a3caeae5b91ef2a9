package egress_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
)

// newEngine starts a Docker engine when it is first asked for, and stops it when t and its
// subtests have ended.
func newEngine(t *testing.T) func(*testing.T) *dockertest.Engine {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "engine")
	var started *dockertest.Engine
	start := sync.OnceValues(func() (_ *dockertest.Engine, err error) {
		started, err = dockertest.Start(dir)
		return started, err
	})
	t.Cleanup(func() {
		if started != nil {
			started.Stop()
		}
	})
	return func(sub *testing.T) *dockertest.Engine {
		sub.Helper()
		e, err := start()
		return dockertest.Require(sub, e, err)
	}
}

// onDocker has the attacker in an image: a daemon sees no directories of ours.
func onDocker(name string, engine func(*testing.T) *dockertest.Engine) place {
	return func(t *testing.T) (*runner.Runner, job.Root, []job.Mount) {
		t.Helper()
		e := engine(t)
		program, err := os.ReadFile(filepath.Join(attacker(t), "attacker"))
		if err != nil {
			t.Fatal(err)
		}
		l := e.Add(t, dockertest.Busybox(t, v1.Config{User: "app"},
			imagetest.Dir("attacker"), imagetest.Entry{Name: "attacker/attacker", Body: string(program), Mode: 0o755}))
		st := statetest.Dir(t)
		backend, err := docker.New(docker.Config{Name: name, Host: docker.Endpoint{URL: e.Host, From: "test"}, Lock: l, State: st})
		if err != nil {
			t.Fatal(err)
		}
		r := &runner.Runner{Backend: backend, Guest: sandboxtest.Guest(t), Spool: st.Path(), Grace: 300 * time.Millisecond}
		return r, job.Root{Kind: job.RootImage, Image: l.Images[0].Platforms[0].Config}, nil
	}
}
