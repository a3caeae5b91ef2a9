package compose

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/loopback"
)

// TestNothingIsFetched: files that an override takes in from elsewhere are not fetched for a
// plan, nor by an offline installation, and compose itself is asked: without that it does.
func TestNothingIsFetched(t *testing.T) {
	config := realCompose(t)
	for _, c := range []struct {
		name, override string
		target         phase.Target
		asked          bool
	}{
		{"an installation", "include: [\"oci://ADDRESS/app:1\"]\n", phase.Target{}, true},
		{"a plan", "include: [\"oci://ADDRESS/app:1\"]\n", phase.Target{Local: true}, false},
		{"offline", "include: [{path: \"oci://ADDRESS/app:1\"}]\n", phase.Target{Bundle: "b"}, false},
		{"git", "include: [\"http://ADDRESS/app.git\"]\n", phase.Target{Local: true}, false},
		{"a file that takes it in", "include: [more.yaml]\n", phase.Target{Local: true}, false},
		{"a service of elsewhere", "services: {a: {extends: {file: \"oci://ADDRESS/app:1\", service: a}}}\n", phase.Target{Local: true}, false},
	} {
		address, asked := listener(t)
		c.target.Dir, c.target.Socket = t.TempDir(), filepath.Join(config, "none.sock")
		for name, text := range map[string]string{
			overrides[0]: c.override, "more.yaml": "include: [\"oci://ADDRESS/app:1\"]\n",
			// Compose of that time wants to be allowed to; what is wanted here comes before.
			".env": "COMPOSE_EXPERIMENTAL_GIT_REMOTE=1\nCOMPOSE_EXPERIMENTAL_OCI_REMOTE=1\n",
		} {
			text = strings.ReplaceAll(text, "ADDRESS", address)
			if err := os.WriteFile(filepath.Join(c.target.Dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := load(t.Context(), cli{target: &c.target, file: []byte("name: quavon\nservices: {a: {image: x}}\n")})
		if err == nil || errors.Is(err, errElsewhere) == c.asked {
			t.Errorf("%s: %v", c.name, err)
		}
		if (asked() > 0) != c.asked {
			t.Errorf("%s: the server was asked %d times", c.name, asked())
		}
	}
}

// realCompose has the docker command and its compose plugin be those of the engine's package.
// It returns the client's directory of configuration.
func realCompose(t *testing.T) (config string) {
	t.Helper()
	root, err := exec.Command(filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh"), "fetch").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin, config := filepath.Join(strings.TrimSpace(string(root)), "usr"), t.TempDir()
	if err := os.Symlink(filepath.Join(bin, "libexec", "docker", "cli-plugins"), filepath.Join(config, "cli-plugins")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(bin, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_CONFIG", config)
	return config
}

// listener is a server that hangs up, and how many have come.
func listener(t *testing.T) (address string, asked func() int32) {
	t.Helper()
	l, err := net.Listen("tcp", loopback.Host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return l.Addr().String(), n.Load
}
