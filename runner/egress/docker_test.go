package egress_test

import (
	"os"
	"path/filepath"
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

// onDocker has the attacker in an image: a daemon sees no directories of ours.
func onDocker(name string, engine func(testing.TB) *dockertest.Engine) place {
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
