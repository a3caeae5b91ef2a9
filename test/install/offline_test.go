package install_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/cosign/v2/pkg/cosign"

	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestOffline makes a bundle on one host and installs it on another, which has nothing
// but the file: no image, no declaration and no program. The command runs in a network
// namespace without a way out, and so does the engine.
func TestOffline(t *testing.T) {
	key, public := newKey(t), newKey(t)+".pub" // a pair, and another's public half
	file := makeBundle(t, key)
	h := newHost(t)
	h.undeclare()
	h.output("tar", "-xf", file, strings.TrimSuffix(bundle.Bin(source.Host().String()), "/"))
	install := func(args ...string) (string, error) {
		own := filepath.Join(h.dir, bundle.Bin(source.Host().String()), bundle.Quavon)
		start := time.Now()
		cmd := exec.Command("unshare", append([]string{"--net", own, "install", "--lib", h.lib, "--sandbox", "--offline", file}, args...)...)
		cmd.Dir, cmd.Env = h.dir, h.env
		out, err := cmd.CombinedOutput()
		t.Logf("quavon install %s: %s\n%s", strings.Join(args, " "), seconds(time.Since(start)), out)
		return string(out), err
	}
	for want, args := range map[string][]string{
		"it isn't said by whom it must be": {"--yes"}, "another key": {"--yes", "--offline-key", public},
	} {
		if out, err := install(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("it doesn't say %q: %v", want, err)
		}
	}
	if out, err := install("--dry-run", "--offline-key", key+".pub"); err != nil || !strings.Contains(out, "take box") {
		t.Error("the plan:", err)
	}
	if out, err := h.try("docker", "pull", "registry.example/app@sha256:"+strings.Repeat("0", 64)); err == nil {
		t.Errorf("the engine has a way out: %s", out)
	}
	if out := h.docker("images", "-q") + h.docker("ps", "-aq"); out != "" {
		t.Errorf("there was something before: %s", out)
	}
	if out, err := install("--yes", "--offline-key", key+".pub"); err != nil || !strings.Contains(out, "QD957 pass") {
		t.Fatal(err)
	}
	h.asLocked()
	if out, err := install("--yes", "--offline-key", key+".pub"); err != nil || !strings.Contains(out, "nothing to change") {
		t.Error("again:", err)
	}
	h.output(filepath.Join(sandboxtest.Module(t), "bin", "quavon"), "uninstall", "--purge", "--yes", "--lib", h.lib)
}

// newKey is the path of a new private key of cosign's; the public one is beside it.
func newKey(t *testing.T) string {
	t.Helper()
	pair, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cosign.key")
	for name, raw := range map[string][]byte{path: pair.PrivateBytes, path + ".pub": pair.PublicBytes} {
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// makeBundle builds the images of the declaration and packs them, twice.
func makeBundle(t *testing.T, key string) string {
	t.Helper()
	h := newHost(t)
	quavon, file := filepath.Join(sandboxtest.Module(t), "bin", "quavon"), filepath.Join(t.TempDir(), "quavon.bundle")
	h.output(quavon, "build", "images", "--network", "none")
	for _, path := range []string{file, file + ".again"} {
		start := time.Now()
		h.output(quavon, "build", "bundle", "-o", path, "--sign-key", key)
		t.Logf("packed in %s", seconds(time.Since(start)))
	}
	h.output("cmp", file, file+".again")
	t.Log(h.output(quavon, "build", "bundle", "--show", file, "--key", key+".pub"))
	return file
}

// asLocked compares the engine's images with the lock, by their digests.
func (h *host) asLocked() {
	h.t.Helper()
	l, err := lock.Read(filepath.Join(h.dir, lock.DefaultName))
	if err != nil {
		h.t.Fatal(err)
	}
	if len(l.Images) != 3 {
		h.t.Errorf("the lock has %d images", len(l.Images))
	}
	for _, i := range l.Images {
		_, p := l.Find(i.Name, source.Host())
		var have []struct {
			ID     string
			RootFS struct{ Layers []string }
		}
		if err := json.Unmarshal([]byte(h.docker("image", "inspect", p.Config)), &have); err != nil || len(have) != 1 {
			h.t.Fatal(i.Name, err)
		}
		if have[0].ID != p.Config || strings.Join(have[0].RootFS.Layers, " ") != strings.Join(p.DiffIDs, " ") {
			h.t.Errorf("%s: the engine has %+v, the lock %+v", i.Name, have[0], p)
		}
	}
}
