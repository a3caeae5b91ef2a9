// Package dockertest gives tests a real Docker engine, started by hand, and images
// in it.
package dockertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/quavon/quavon/test/cache"
	"github.com/quavon/quavon/test/need"
)

// EnvEngine names the socket of a running engine to use instead of a new one.
const EnvEngine = "QUAVON_TEST_ENGINE"

// Engine is a running engine.
type Engine struct {
	// Host is its socket's URL.
	Host string
	API  *client.Client
	stop func()
}

// Start starts an engine; Stop it at the end of the test binary. It is not there
// without root, or where its packages can't be fetched. mode is passed to the script:
// with "host-net" the engine shares the host's namespaces.
func Start(dir string, mode ...string) (*Engine, error) {
	e := &Engine{Host: os.Getenv(EnvEngine), stop: func() {}}
	if e.Host == "" || mode != nil {
		root, err := moduleRoot()
		if err != nil {
			return nil, err
		}
		script := filepath.Join(root, "test", "docker", "engine.sh")
		cmd := exec.Command(script, append([]string{"start", dir, filepath.Join(root, "bin", "runsc")}, mode...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", script, err)
		}
		e.Host = strings.TrimSpace(string(out))
		e.stop = func() { _ = exec.Command(script, "stop", dir).Run() }
	}
	var err error
	e.API, err = client.NewClientWithOpts(client.WithHost(e.Host), client.WithAPIVersionNegotiation())
	return e, err
}

// Stop stops an engine that Start has started.
func (e *Engine) Stop() { e.stop() }

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// Programs are the executables of the engine's that are a container's parents.
func Programs() []string {
	dir, err := cache.Dir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(dir, "docker", "root", "usr", "bin", "containerd-shim-runc-v2")}
}

// Objects lists the engine's containers and volumes.
func (e *Engine) Objects() []string {
	ctx := context.Background()
	var lines []string
	list, err := e.API.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return []string{"the engine does not list its containers: " + err.Error()}
	}
	for _, c := range list {
		lines = append(lines, "container "+c.ID+" "+strings.Join(c.Names, " "))
	}
	volumes, err := e.API.VolumeList(ctx, volume.ListOptions{})
	if err != nil {
		return []string{"the engine does not list its volumes: " + err.Error()}
	}
	for _, v := range volumes.Volumes {
		lines = append(lines, "volume "+v.Name)
	}
	slices.Sort(lines)
	return lines
}

// Load puts an archive, as of `docker save`, into the engine.
func (e *Engine) Load(t testing.TB, archive string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := e.API.ImageLoad(context.Background(), f)
	if err != nil {
		t.Fatalf("load %s: %v", archive, err)
	}
	defer r.Body.Close()
	for d := json.NewDecoder(r.Body); d.More(); {
		var m struct{ Stream, Error string }
		if err := d.Decode(&m); err != nil || m.Error != "" {
			t.Fatalf("load %s: %v %s", archive, err, m.Error)
		}
	}
}

// Require skips a test for want of an engine.
func Require(t testing.TB, e *Engine, err error) *Engine {
	t.Helper()
	if err != nil || e == nil {
		need.Skip(t, "no Docker engine: %v", err)
	}
	return e
}

// Later starts an engine when it is first asked for, and stops it when t and its
// subtests have ended.
func Later(t *testing.T) func(testing.TB) *Engine {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "engine")
	var started *Engine
	start := sync.OnceValues(func() (_ *Engine, err error) {
		started, err = Start(dir)
		return started, err
	})
	t.Cleanup(func() {
		if started != nil {
			started.Stop()
		}
	})
	return func(sub testing.TB) *Engine {
		sub.Helper()
		e, err := start()
		return Require(sub, e, err)
	}
}
