//go:build install

package install_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// host is a machine to install on: a real Docker engine of its own with gVisor and the
// compose plugin, and an empty directory.
type host struct {
	t *testing.T
	// dir is the installation's, state quavon's; both begin empty.
	dir, state string
	// engine is the directory of the engine's daemon.json, socket its socket.
	engine, socket string
	env            []string
}

// newHost starts the engine. All of it goes with the test.
func newHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "an installation needs root")
	}
	base, err := os.MkdirTemp("/var/lib", "quavon-install-") //nolint:usetesting // a state directory's parents must not be writable for all
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh")
	h := &host{t: t, dir: filepath.Join(base, "install"), state: filepath.Join(base, "state"), engine: filepath.Join(base, "engine")}
	t.Cleanup(func() {
		if out, err := exec.Command(script, "stop", h.engine).CombinedOutput(); err != nil {
			t.Errorf("stop the engine: %v\n%s", err, out)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	root := h.output(script, "fetch")
	h.output(script, "start", h.engine, sandboxtest.Runsc(t))
	h.socket = filepath.Join(h.engine, "docker.sock")
	// The client finds plugins in its configuration.
	config := filepath.Join(base, "docker")
	plugins := filepath.Join(config, "cli-plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "usr/libexec/docker/cli-plugins/docker-compose"), filepath.Join(plugins, "docker-compose")); err != nil {
		t.Fatal(err)
	}
	h.env = append(os.Environ(),
		"PATH="+filepath.Join(root, "usr/bin")+":"+os.Getenv("PATH"), "DOCKER_CONFIG="+config, "DOCKER_HOST=unix://"+h.socket,
		"QUAVON_STATE_DIR="+h.state, "NO_COLOR=1",
	)
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
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

const declaration = `schemaVersion: 1
images:
  box:
    context: sources/box
    platforms: [linux/amd64, linux/arm64]
  quavon:
    executable: self
    platforms: [linux/amd64, linux/arm64]
  valkey:
    context: sources/valkey
    platforms: [linux/amd64, linux/arm64]
`

// declare writes a declaration of images that can be built without any network: a box
// for jobs with the host's busybox, and Valkey as Debian's unpacked package.
func (h *host) declare() {
	h.t.Helper()
	h.write("images.yaml", declaration)
	h.box("first")
	h.write("sources/valkey/Dockerfile", "FROM scratch\nCOPY root/ /\n"+
		"COPY --chown=65532:65532 data/ /data/\nENV PATH=/bin LD_LIBRARY_PATH=/lib\nUSER 65532:65532\nWORKDIR /data\n")
	root := filepath.Join(h.dir, "sources/valkey/root")
	valkey := h.output(filepath.Join(sandboxtest.Module(h.t), "test/valkey/server.sh"), "fetch")
	h.busybox(root)
	for _, program := range []string{"valkey-server", "valkey-cli"} {
		h.program(filepath.Join(valkey, "usr/bin", program), root, filepath.Join(valkey, "usr/lib"))
	}
	h.write("sources/valkey/data/.keep", "")
}

// box writes the context of the jobs' image, with a mark. Its user isn't root, since
// the probes of what root may do in a sandbox fail then.
func (h *host) box(mark string) {
	h.t.Helper()
	h.write("sources/box/Dockerfile", "FROM scratch\nCOPY root/ /\nENV PATH=/bin\nUSER 60000:60000\n")
	h.write("sources/box/root/mark", mark+"\n")
	h.busybox(filepath.Join(h.dir, "sources/box/root"))
}

func (h *host) busybox(root string) {
	h.t.Helper()
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		need.Skip(h.t, "busybox-static is missing: %v", err)
	}
	h.copy("/bin/busybox", filepath.Join(bin, "busybox"))
	for _, applet := range []string{"sh", "grep", "cat", "echo", "id", "true", "sleep", "wget", "httpd", "ls"} {
		_ = os.Symlink("busybox", filepath.Join(bin, applet)) // it may be there
	}
}

func (h *host) copy(from, to string) {
	h.t.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, raw, 0o755)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// program copies a program and the libraries it links, some of which are unpacked
// below libs.
func (h *host) program(path, root, libs string) {
	h.t.Helper()
	h.copy(path, filepath.Join(root, "bin", filepath.Base(path)))
	cmd := exec.Command("ldd", path)
	dirs, err := filepath.Glob(filepath.Join(libs, "*-linux-gnu"))
	if err != nil || len(dirs) != 1 {
		h.t.Fatal(dirs, err)
	}
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dirs[0])
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("ldd %s: %v", path, err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from, to := "", ""
		switch {
		case len(fields) > 2 && fields[1] == "=>":
			from, to = fields[2], filepath.Join(root, "lib", fields[0])
		case len(fields) == 2 && strings.HasPrefix(fields[0], "/"): // the loader, whose path is in the program
			from, to = fields[0], filepath.Join(root, fields[0])
		default:
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			h.t.Fatal(err)
		}
		h.copy(from, to)
	}
}

func (h *host) note(format string, args ...any) { h.t.Helper(); h.t.Log(fmt.Sprintf(format, args...)) }
