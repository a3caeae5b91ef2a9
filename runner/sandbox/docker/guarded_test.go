package docker_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox/conformance"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/docker/guard"
)

// guarded serves a guard in front of the engine and returns its URL.
func guarded(t *testing.T, l *lock.File, runtimes ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guard.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := guard.New(guard.Config{Upstream: strings.TrimPrefix(engine.Host, "unix://"), Runtimes: runtimes, Lock: l})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "unix://" + path
}

// The backend needs nothing that the guard refuses.
func TestConformanceGuarded(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	l := engine.Add(t, dockertest.Busybox(t, v1.Config{Volumes: map[string]struct{}{"/data": {}}, Env: []string{"GODEBUG=x=y"}}), lock.SourceDockerArchive)
	conformance.Run(t, factory(t, docker.Runsc, guarded(t, l, "runsc"), l))
}
