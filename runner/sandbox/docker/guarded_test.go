package docker_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/image/lock"
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
