//go:build scan

package scan

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/queue/queuetest"
)

// TestSubmit lets a real runner scan our flaws: it finds what a scan here does, and
// heeds no .gitleaksignore. Before and after it there is no healthy runner.
func TestSubmit(t *testing.T) {
	dir := corpus(t)
	write(t, dir, ".gitleaksignore", "secrets/leak.txt:github-pat:1\n")
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	t.Setenv("VALKEY_URL", "unix://"+queuetest.Start(t).Socket)
	t.Setenv("QUAVON_SANDBOX_SIGNING_KEY", base64.StdEncoding.EncodeToString(key))
	image := offered(t)
	unavailable(t, dir, image)
	stop := startRunner(t)
	begin := time.Now()
	there := scan(t, dir, 1, "--submit", "--image", image)
	t.Logf("took %s", time.Since(begin).Round(time.Millisecond))
	if d := cmp.Diff(scan(t, dir, 1).lines(), there.lines()); d != "" {
		t.Errorf("findings differ (-here +on the runner):\n%s", d)
	}
	if !strings.Contains(strings.Join(there.lines(), "\n"), "gitleaks github-pat secrets/leak.txt:1") {
		t.Error("the directory's .gitleaksignore has hidden a finding")
	}
	stop()
	unavailable(t, dir, image)
}

// offered is the image's digest.
func offered(t *testing.T) string {
	t.Helper()
	out, code := quavon(t, t.TempDir(), "images", "ls", "-q")
	id := strings.Fields(string(out))
	if code != 0 || len(id) != 1 {
		t.Fatalf("the store has not one image: %q", id)
	}
	return id[0]
}

func unavailable(t *testing.T, dir, image string) {
	t.Helper()
	begin := time.Now()
	out, code := quavon(t, dir, "scan", "--submit", "-o", "json", "--image", image)
	if code != 3 || !strings.Contains(string(out), `"reason": "sandbox_unavailable"`) || !strings.Contains(string(out), "no healthy sandbox runner") {
		t.Errorf("without a runner: exit code %d, %s", code, out)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s to be refused", took)
	}
}

// startRunner starts one and waits until it is healthy; stop ends it.
func startRunner(t *testing.T) (stop func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(*binDir, "quavon"), "runner", "--id", "one")
	cmd.Env = append(os.Environ(), "QUAVON_STATE_DIR="+*stateDir)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if out, _ := quavon(t, t.TempDir(), "status"); strings.Contains(string(out), " healthy ") {
			return stop
		}
	}
	said, _ := os.ReadFile(log.Name())
	t.Fatalf("the runner isn't healthy: %s", said)
	return nil
}
