package commands

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/race"
)

// A doctor that is interrupted while the probes run takes away what it has planted, and its
// sandbox.
func TestDoctorInterrupted(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("", "quavon-interrupted-") //nolint:usetesting // everybody must get to it
	self, err2 := os.Executable()
	quavon := filepath.Join(t.TempDir(), "quavon")
	if err := errors.Join(err, err2, os.Chmod(tmp, 0o711), os.Symlink(self, quavon)); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	dir := statetest.Path(t)
	c := exec.Command(quavon, "doctor", "--local", "--only", "QD957", "--full")
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + tmp, "TMPDIR=" + tmp, state.EnvDir + "=" + dir,
		envGuest + "=" + sandboxtest.Guest(t), envRunsc + "=" + sandboxtest.Runsc(t), race.Env(t),
	}
	var out bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = tmp, &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	planted := eventually(func() bool {
		found, _ := filepath.Glob(filepath.Join(tmp, "quavon-smoke-*", "canary-*"))
		return len(found) == 1
	})
	_ = c.Process.Signal(syscall.SIGINT)
	_ = c.Wait() // its exit code is looked at
	if !planted || c.ProcessState.ExitCode() != 130 {
		t.Fatalf("planted: %v; exit code %d:\n%s", planted, c.ProcessState.ExitCode(), out.String())
	}
	for _, pattern := range []string{filepath.Join(tmp, "quavon-smoke-*"), filepath.Join(dir, "sandboxes", "*")} {
		if left, _ := filepath.Glob(pattern); left != nil {
			t.Errorf("left behind: %v\n%s", left, out.String())
		}
	}
}
