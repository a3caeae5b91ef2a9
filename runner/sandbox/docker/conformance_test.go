package docker_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/conformance"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
)

// shared is what a front end that the suite starts has to know too.
type shared struct {
	Host, Backend string
	Lock          *lock.File
}

const envShared = "QUAVON_TEST_DOCKER"

var (
	engine    *dockertest.Engine
	engineErr error
)

// One engine serves all tests of this binary.
func TestMain(m *testing.M) {
	if os.Getenv(envShared) != "" { // A front end: the engine is there.
		conformance.Main(m, conformance.Factory{Open: openShared})
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "quavon-engine-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if engine, engineErr = dockertest.Start(filepath.Join(dir, "engine")); engineErr == nil {
			defer engine.Stop()
		}
		return m.Run()
	}())
}

func openShared(dir string) (sandbox.Backend, error) {
	var s shared
	if err := json.Unmarshal([]byte(os.Getenv(envShared)), &s); err != nil {
		return nil, err
	}
	d, err := state.Open(dir)
	if err != nil {
		return nil, err
	}
	return docker.New(docker.Config{
		Name: s.Backend, Host: docker.Endpoint{URL: s.Host, From: "test"}, Lock: s.Lock, State: d,
	})
}

// factory opens backends of one name on an engine at host.
func factory(t *testing.T, name, host string, l *lock.File) conformance.Factory {
	t.Helper()
	env, err := json.Marshal(shared{host, name, l})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(envShared, string(env))
	return conformance.Factory{
		Open: openShared,
		Config: func(t testing.TB, dir string) sandbox.Config {
			b, err := openShared(dir)
			if err != nil {
				t.Fatal(err)
			}
			img, err := sandbox.AsDetached(b).FindImage(t.Context(), l.Images[0].Platforms[0].Config)
			if err != nil {
				t.Fatal(err)
			}
			return sandbox.Config{Image: img.ID, Guest: sandboxtest.Guest(t)}
		},
		Programs:   dockertest.Programs(),
		Objects:    engine.Objects,
		HostMemory: name != docker.Runsc,
	}
}

// The backend needs nothing that the guard refuses.
func TestConformanceRunscGuarded(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	c := v1.Config{Volumes: map[string]struct{}{"/data": {}}, Env: []string{"GODEBUG=x=y"}, User: "app"}
	l := engine.Add(t, dockertest.Busybox(t, c))
	conformance.Run(t, factory(t, docker.Runsc, guarded(t, l, "runsc"), l))
}

func TestConformanceRunc(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	l := engine.Add(t, dockertest.Busybox(t, v1.Config{}))
	conformance.Run(t, factory(t, docker.Runc, engine.Host, l))
}
