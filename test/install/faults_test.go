//go:build faults

package install_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestFaults: what may go wrong around an installation ends it with a reason, and takes
// back what was begun; with the cause away the same command succeeds, and what is the
// operator's was never touched. A process that is killed and a full disk are the tests
// of installer, a dockerd that dies those of installer/runtime.
func TestFaults(t *testing.T) {
	h := newHost(t)
	quavon := filepath.Join(sandboxtest.Module(t), "bin", "quavon")
	install := []string{"install", "--sandbox", "--network", "none", "--lib", h.lib}
	yes := append(install[:len(install):len(install)], "--yes")
	h.write(".env", "# mine\nNAME='a b'\n")
	mine := h.operators()
	for _, c := range []struct {
		name  string
		begin func() (end func())
		args  []string
		want  string
	}{
		{"no compose plugin", func() func() { return h.without(filepath.Join(h.base, "docker/cli-plugins/docker-compose")) }, yes, "has no compose plugin"},
		{"no terminal, no --yes", func() func() { return func() {} }, install, "there is no terminal"},
		{"a broken daemon.json", func() func() { return h.replaced(filepath.Join(h.engine, "daemon.json"), "{", "{,") }, yes, "line 1, column 2"},
		{"a broken .env", func() func() { return h.replaced(filepath.Join(h.dir, ".env"), "NAME='a b'", "NAME='a b") }, yes, ".env"},
		{"an unhealthy service", func() func() {
			return h.override("services: {valkey: {healthcheck: {test: [CMD, \"false\"], interval: 1s, retries: 1, start_period: 1s}}}\n")
		}, yes, "valkey"},
		{"a port taken", func() func() {
			h.output("sh", "-c", "tar -C sources/box/root -c . | docker import - taken")
			h.docker("run", "-d", "--name", "taken", "-p", "127.0.0.1:6390:6390", "taken", "/bin/sleep", "1000")
			end := h.override("services: {valkey: {ports: [\"127.0.0.1:6390:6379\"], networks: [outside]}}\nnetworks: {outside: {}}\n")
			return func() { h.docker("rm", "-f", "taken"); h.docker("rmi", "taken"); end() }
		}, yes, "6390"},
		{"another installation", h.neighbour, yes, "which these would replace"},
		{"a compose.yaml of one's own", func() func() { return h.file("compose.yaml", "services: {}\n") }, yes, "not written by"},
		{"an override that is a pipe", func() func() { return h.pipe("compose.override.yaml") }, yes, "no regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			end := c.begin()
			start := time.Now()
			out, err := h.try(quavon, c.args...)
			t.Logf("%s\n%s", seconds(time.Since(start)), out)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			end()
			h.same(mine)
		})
	}
	h.t = t
	t.Run("interrupted", func(t *testing.T) {
		h.t = t
		for _, at := range []string{"images", "compose", "wait"} {
			h.interrupt(quavon, yes, at)
			h.same(mine)
		}
	})
	h.t = t
	h.output(quavon, yes...)
	h.output(quavon, "uninstall", "--purge", "--yes", "--lib", h.lib)
	h.same(mine)
	if left := h.docker("ps", "-aq") + h.docker("volume", "ls", "-q"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// operators are the files that aren't quavon's.
func (h *host) operators() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, path := range []string{filepath.Join(h.engine, "daemon.json"), filepath.Join(h.dir, ".env"), filepath.Join(h.dir, "images.yaml")} {
		data, err := os.ReadFile(path)
		if err != nil {
			h.t.Fatal(err)
		}
		all[path] = string(data)
	}
	return all
}

// same takes back what phases before the failing one have made, and compares.
func (h *host) same(want map[string]string) {
	h.t.Helper()
	h.output(filepath.Join(sandboxtest.Module(h.t), "bin", "quavon"), "uninstall", "--purge", "--yes", "--lib", h.lib)
	if d := cmp.Diff(want, h.operators()); d != "" {
		h.t.Errorf("the operator's files: %s", d)
	}
	if left := h.docker("ps", "-aq"); left != "" {
		h.t.Errorf("containers are left: %s", left)
	}
}

func (h *host) without(path string) func() {
	h.t.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(path+".away", path); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) replaced(path, old, now string) func() {
	h.t.Helper()
	was, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(was, []byte(old), []byte(now), 1), 0o644)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(path, was, 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) override(text string) func() { return h.file("compose.override.yaml", text) }

func (h *host) file(name, text string) func() {
	h.t.Helper()
	h.write(name, text)
	return func() { h.remove(name) }
}

func (h *host) pipe(name string) func() {
	h.t.Helper()
	if err := syscall.Mkfifo(filepath.Join(h.dir, name), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return func() { h.remove(name) }
}

func (h *host) remove(name string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.dir, name)); err != nil {
		h.t.Fatal(err)
	}
}

// neighbour is a service of another directory, which an installation and an uninstall leave
// running, with what compose has made for it.
func (h *host) neighbour() func() {
	h.t.Helper()
	h.write("neighbour/compose.yaml", "name: quavon\nvolumes: {data: {}}\n"+
		"services: {web: {image: neighbour, command: [/bin/sleep, \"1000\"], volumes: [\"data:/data\"]}}\n")
	h.output("sh", "-c", "tar -C sources/box/root -c . | docker import - neighbour && cd neighbour && docker compose up -d")
	before := h.docker("ps", "-q")
	return func() {
		h.output(filepath.Join(sandboxtest.Module(h.t), "bin", "quavon"), "uninstall", "--purge", "--yes", "--lib", h.lib)
		if now := h.docker("ps", "-q"); before == "" || now != before {
			h.t.Errorf("the neighbour's container %q is %q by now", before, now)
		}
		h.output("sh", "-c", "cd neighbour && docker compose down -v -t 1 && docker rmi neighbour && rm -r ../neighbour")
	}
}

// waiting signals a process when a text comes.
type waiting struct {
	out  bytes.Buffer
	text string
	do   func()
}

func (w *waiting) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	if w.do != nil && strings.Contains(w.out.String(), w.text) {
		w.do()
		w.do = nil
	}
	return n, err
}

// interrupt types Ctrl-C when a phase has begun.
func (h *host) interrupt(quavon string, args []string, phase string) {
	h.t.Helper()
	cmd := exec.Command(quavon, args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	before := map[string]string{"images": "env ", "compose": "images ", "wait": "compose "}[phase]
	out := &waiting{text: "\n" + before, do: func() {
		time.Sleep(300 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGINT)
	}}
	cmd.Stdout, cmd.Stderr = out, out
	start := time.Now()
	err := cmd.Run()
	h.t.Logf("%s in %s: %s\n%s", phase, seconds(time.Since(start)), err, out.out.String())
	if cmd.ProcessState.ExitCode() != 130 {
		h.t.Errorf("in phase %s it ends with %d", phase, cmd.ProcessState.ExitCode())
	}
}
