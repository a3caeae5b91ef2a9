package commands

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
	"github.com/quavon/quavon/test/race"
)

// TestDoctorKilled kills a doctor in the middle of its probes: its sandboxes and what it has
// planted end with it, and what is left of them is gone after the next one.
func TestDoctorKilled(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		need.Skip(t, "the host's processes are root's to see")
	}
	tmp, err := os.MkdirTemp("", "quavon-killed-") //nolint:usetesting // everybody must get to it
	self, err2 := os.Executable()
	quavon := filepath.Join(t.TempDir(), "quavon")
	if err := errors.Join(err, err2, os.Chmod(tmp, 0o711), os.Symlink(self, quavon)); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + tmp, "TMPDIR=" + tmp, envGuest + "=" + sandboxtest.Guest(t), envRunsc + "=" + sandboxtest.Runsc(t),
		state.EnvDir + "=" + statetest.Path(t), race.Env(t),
	}
	doctor := func(args ...string) *exec.Cmd {
		c := exec.Command(quavon, append([]string{"doctor", "--local"}, args...)...)
		c.Env, c.Dir = env, tmp
		return c
	}
	first := doctor("--only", "QD957", "--full")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	var nonce string
	appeared := eventually(func() bool {
		canaries, _ := filepath.Glob(filepath.Join(tmp, "quavon-smoke-*", "canary-*"))
		if len(canaries) == 1 {
			_, nonce, _ = strings.Cut(filepath.Base(canaries[0]), "canary-")
		}
		return nonce != "" && processNaming(nonce) != ""
	})
	_ = first.Process.Kill()
	_ = first.Wait() // it was killed
	if !appeared {
		t.Fatalf("the probes did not begin: nonce %q", nonce)
	}
	if !eventually(func() bool { return processNaming(nonce) == "" }) {
		t.Errorf("still there after its doctor: %s", processNaming(nonce))
	}
	dirs, _ := filepath.Glob(filepath.Join(tmp, "quavon-smoke-*"))
	for _, dir := range dirs {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Error(err)
		}
	}
	out, err := doctor("--only", "QD957,QD958").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "quavon-smoke-*")); left != nil {
		t.Errorf("left in the place for files: %v", left)
	}
	if left := named("/sys/fs/cgroup", func(name string) bool { return strings.Contains(name, nonce) }); left != nil {
		t.Errorf("left of its control groups: %v", left)
	}
}

// processNaming is a process of the host with a word in its command line or environment, "" for none.
func processNaming(word string) string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		for _, f := range []string{f, filepath.Join(filepath.Dir(f), "environ")} {
			if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(word)) {
				return f + ": " + string(bytes.ReplaceAll(data[:min(len(data), 200)], []byte{0}, []byte{' '}))
			}
		}
	}
	return ""
}

// eventually asks until the answer is yes, or minutes are over: a busy machine takes its time.
func eventually(ask func() bool) bool {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ask() {
			return true
		}
	}
	return false
}
