package runsc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// freezer makes a group whose processes not even SIGKILL ends.
func freezer(t *testing.T) (freeze func(pid int, state string)) {
	t.Helper()
	dir := "/sys/fs/cgroup/freezer/quavon-stuck-test"
	if err := os.Mkdir(dir, 0o755); err != nil {
		if os.Geteuid() != 0 {
			t.Skipf("only root has a freezer: %v", err) // Not for lack of a part.
		}
		need.Skip(t, "no freezer of version 1: %v", err)
	}
	t.Cleanup(func() {
		for over := time.Now().Add(time.Minute); os.Remove(dir) != nil && time.Now().Before(over); {
			time.Sleep(time.Millisecond)
		}
	})
	return func(pid int, state string) {
		t.Helper()
		err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "freezer.state"), []byte(state), 0))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A sandbox with a process that can't be killed keeps its slot, and says so;
// once it can be, another Stop works.
func TestStuckProcessKeepsTheSlot(t *testing.T) {
	binary, err := Find()
	if p, abs := filepath.Abs("../../../bin/runsc"); err != nil && abs == nil {
		binary = p
	}
	freeze := freezer(t)
	d := statetest.Dir(t)
	b := New(binary, d)
	b.patience = 300 * time.Millisecond
	// Any process in the group will do; it needs no real root.
	s, err := b.Start(t.Context(), sandbox.Config{ID: "stuck", RootDir: t.TempDir(), Guest: "/bin/true", Limits: job.Limits{Pids: 10}})
	if err != nil {
		t.Fatal(err)
	}
	bx, ok := s.(*box)
	if !ok {
		t.Fatalf("a %T", s)
	}
	stuck := exec.Command("sleep", "100")
	if err := stuck.Start(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"memory", "cpu", "pids"} {
		procs := filepath.Join("/sys/fs/cgroup", c, "quavon", "stuck", "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(stuck.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	freeze(stuck.Process.Pid, "FROZEN")
	err = s.Stop(t.Context())
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(stuck.Process.Pid)) {
		t.Errorf("stop says %v", err)
	}
	if _, err := d.Claim(t.Context(), Name, "stuck"); !errors.Is(err, state.ErrInUse) {
		t.Errorf("the slot is not taken: %v", err)
	}
	if ids, err := b.Reap(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("reaped %v, %v", ids, err)
	}
	freeze(stuck.Process.Pid, "THAWED")
	_ = stuck.Wait()
	b.patience = time.Minute
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stop once it can be killed: %v", err)
	}
	if _, err := os.Stat(bx.slot.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the slot is left: %v", err)
	}
	if err := unix.Kill(stuck.Process.Pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the process is left: %v", err)
	}
}
