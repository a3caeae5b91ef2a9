//go:build install

package install_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOffline makes a bundle on one host and installs it on another, which has nothing
// but the file: the command has no network at all, the engine none that leads out, and
// no image, no declaration and no program is there.
func TestOffline(t *testing.T) {
	maker := newHost(t)
	maker.declare()
	maker.output("openssl", "version") // what the host checks by hand
	maker.env = append(maker.env, "COSIGN_PASSWORD=")
	maker.output(maker.quavon(), "build", "images", "--network", "none")
	start := time.Now()
	file := filepath.Join(maker.dir, "b.tar")
	maker.note("%s", maker.output(maker.quavon(), "build", "bundle", "-o", file))
	again := filepath.Join(maker.dir, "again.tar")
	maker.output(maker.quavon(), "build", "bundle", "-o", again)
	maker.output("cmp", file, again)
	maker.note("two bundles in %v", time.Since(start))
	maker.note("%s", maker.output(maker.quavon(), "build", "bundle", "--show", file))

	h := newHost(t)
	moved := filepath.Join(h.dir, "quavon.bundle")
	if err := os.Rename(file, moved); err != nil {
		t.Fatal(err)
	}
	h.output("tar", "-xf", moved, "bin/linux-amd64")
	own := filepath.Join(h.dir, "bin/linux-amd64/quavon")
	if out, err := h.try("unshare", "--net", own, "install", "--sandbox", "--yes", "--offline", moved); err == nil || !strings.Contains(out, "nobody has signed") {
		t.Fatalf("unsigned: %v %s", err, out)
	}
	if out := h.docker("image", "ls", "-q"); out != "" {
		t.Fatalf("images before: %s", out)
	}
	if out, err := h.try("docker", "pull", "registry.example/app@sha256:"+strings.Repeat("0", 64)); err == nil {
		t.Fatalf("the engine has a way out: %s", out)
	}
	out, err := h.try("unshare", "--net", own, "install", "--sandbox", "--yes", "--offline", moved, "--accept-risk=unsigned-bundle")
	h.note("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

var (
	_ = json.Valid
	_ = syscall.Getpid
	_ = exec.Command
)
