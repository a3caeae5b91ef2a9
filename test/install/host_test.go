package install_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// host is a machine to install on: a real Docker engine of its own, without gVisor, the
// compose plugin, and a directory that has nothing but a declaration of images.
type host struct {
	t *testing.T
	// base is the directory of all; dir is the installation's, state quavon's, lib gVisor's
	// and engine that of the engine's daemon.json.
	base, dir, state, lib, engine string
	// client is where the docker command is.
	client string
	env    []string
}

// newHost makes a host in a directory of its own.
func newHost(t *testing.T) *host {
	t.Helper()
	need.That(t, os.Geteuid() == 0, "root")
	base, err := os.MkdirTemp("/var/lib", "quavon-install-") //nolint:usetesting // a state directory's parents must not be writable for all
	if err == nil {
		err = os.Chmod(base, 0o755) // runsc becomes nobody
	}
	if err != nil {
		t.Fatal(err)
	}
	return startHost(t, base)
}

// startHost starts the engine. All of it goes with the test, base too.
func startHost(t *testing.T, base string) *host {
	t.Helper()
	sandboxtest.Runsc(t) // beside quavon
	script := filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh")
	in := func(name string) string { return filepath.Join(base, name) }
	h := &host{t: t, base: base, dir: in("install"), state: in("state"), lib: in("lib"), engine: in("engine")}
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", h.engine).CombinedOutput(); err != nil {
			t.Errorf("stop the engine: %v\n%s", err, out)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	root := h.output(script, "fetch")
	h.client = filepath.Join(root, "usr/bin")
	h.output(script, "start", h.engine, "-")
	// The client finds plugins in its configuration.
	plugins := in("docker/cli-plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "usr/libexec/docker/cli-plugins/docker-compose"), filepath.Join(plugins, "docker-compose")); err != nil {
		t.Fatal(err)
	}
	// A program is looked for in this process's own PATH, not in the one it is given.
	t.Setenv("PATH", filepath.Join(root, "usr/bin")+":"+os.Getenv("PATH"))
	h.env = append(os.Environ(), "DOCKER_CONFIG="+in("docker"),
		"DOCKER_HOST=unix://"+filepath.Join(h.engine, "docker.sock"), "QUAVON_STATE_DIR="+h.state, "NO_COLOR=1",
	)
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.declare()
	return h
}

// output runs a program that must succeed.
func (h *host) output(name string, args ...string) string {
	h.t.Helper()
	out, err := h.try(name, args...)
	if err != nil {
		h.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (h *host) try(name string, args ...string) (string, error) {
	h.t.Helper()
	if name == "docker" { // the engine's own, whatever this machine has
		name = filepath.Join(h.client, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = h.dir
	if h.env == nil {
		cmd.Dir = "/"
	}
	cmd.Env = h.env
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil {
		return out.String() + errOut.String(), err
	}
	return out.String(), nil
}

func (h *host) docker(args ...string) string {
	h.t.Helper()
	return h.output("docker", args...)
}

func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}
