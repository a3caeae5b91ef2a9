package smoke_test

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/state/statetest"
)

// TestProductionDocker shows the same of gVisor as a runtime of Docker's, for an image
// with a user and for one whose jobs are root.
func TestProductionDocker(t *testing.T) {
	t.Parallel()
	engine := dockerEngine(t)
	for name, config := range map[string]v1.Config{"user": {User: "app"}, "root": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := engine.Add(t, dockertest.Busybox(t, config, imagetest.Entry{Type: '5', Name: "tmp", Mode: 0o1777},
				imagetest.Dir("var"), imagetest.Entry{Type: '5', Name: "var/tmp", Mode: 0o1777}))
			st := statetest.Dir(t)
			b, err := docker.New(docker.Config{Name: docker.Runsc, Host: docker.Endpoint{URL: engine.Host, From: "test"}, Lock: l, State: st})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner.Runner{Backend: b, Guest: sandboxtest.Guest(t), Spool: st.Path()}
			allHold(t, smoke.For(r, l.Images[0].Platforms[0].Config), bound(t, b), name == "user")
		})
	}
}

func dockerEngine(t *testing.T) *dockertest.Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "quavon-engine-") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	engine, err := dockertest.Start(filepath.Join(dir, "engine"))
	dockertest.Require(t, engine, err)
	t.Cleanup(engine.Stop)
	return engine
}
