package installer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/installer/journal"
)

// TestTakenBackIsAChange: a command that only takes back what another left half done
// has changed something, and says so before it does.
func TestTakenBackIsAChange(t *testing.T) {
	t.Parallel()
	retained := func(version string) (dir string) {
		dir = operator(t)
		in, _ := world(dir, "v1", nil)
		if version != "v1" {
			if _, err := in.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		in, s := world(dir, version, nil)
		in.Retain = true
		s.apply = func(context.Context) error { return errors.New("broken") }
		if _, err := in.Install(t.Context()); err == nil {
			t.Fatal("no failure")
		}
		return dir
	}
	in, _ := world(retained("v2"), "v1", nil)
	if r, err := in.Install(t.Context()); err != nil || !r.Changed {
		t.Errorf("an installation: %+v %v", r, err)
	}
	in, _ = world(retained("v1"), "v1", nil)
	if _, err := in.PlanUninstall(false); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(in.View.(*lines).said, "; "); !strings.Contains(said, "interrupted in phase compose") {
		t.Errorf("planning an uninstall says %q", said)
	}
	if r, err := in.Uninstall(t.Context(), true); err != nil || !r.Changed {
		t.Errorf("an uninstall: %+v %v", r, err)
	}
}

// TestNothingInstalled: in a directory without an installation there is nothing to take
// back or to go back to, and nothing is made either.
func TestNothingInstalled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, _ := world(filepath.Join(dir, "a", "b"), "v1", nil)
	if r, err := in.Uninstall(t.Context(), true); err != nil || r.Changed {
		t.Errorf("uninstall: %+v %v", r, err)
	}
	if _, err := in.PlanUninstall(true); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(in.View.(*lines).said, "; "); !strings.Contains(said, "nothing is installed in "+in.Target.Dir) {
		t.Errorf("uninstall says %q", said)
	}
	if _, err := in.Rollback(t.Context()); err == nil {
		t.Error("rollback finds something")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestDirectoriesAbove: an installation's directory and those above that were made for
// it are gone after an uninstall.
func TestDirectoriesAbove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := journal.Options{Dir: filepath.Join(dir, "a", "b", "c", ".quavon"), Version: "v1"}
	for range 2 { // a second process knows as well
		j, err := journal.Open(o)
		if err == nil {
			err = j.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	j, err := journal.Open(o)
	if err == nil {
		err = errors.Join(j.Leave(), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestRollbackAfterUninstall: there is no way back to what was uninstalled, whose
// services would start again.
func TestRollbackAfterUninstall(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	for _, version := range []string{"v1", "v2"} {
		in, _ := world(dir, version, nil)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	in, _ := world(dir, "v2", nil)
	in.Journal.Data = func(path string) bool { return filepath.Dir(path) == in.Target.Secrets() }
	if _, err := in.Uninstall(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if _, err := in.Rollback(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing is installed") {
		t.Errorf("a rollback: %v", err)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// TestRollbackTellsOfOverride: what the operator has changed beside the installation since
// the one that a rollback goes to is told, and stays as it is.
func TestRollbackTellsOfOverride(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// texts are the override's at the first installation, at that again, and at the
		// rollback; "" for none.
		texts [3]string
		told  bool
	}{
		{"none", [3]string{}, false},
		{"the same", [3]string{"a", "a", "a"}, false},
		{"changed", [3]string{"a", "a", "b"}, true},
		{"changed and installed again", [3]string{"a", "b", "b"}, false},
		{"made since", [3]string{"", "", "b"}, true},
		{"removed since", [3]string{"a", "a", ""}, true},
	} {
		dir := operator(t)
		_, s := world(dir, "v1", nil)
		set := func(text string) {
			t.Helper()
			err := os.Remove(s.override())
			if text != "" {
				err = os.WriteFile(s.override(), []byte(text), 0o644)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		install := func(version, override string) {
			t.Helper()
			set(override)
			in, _ := world(dir, version, nil)
			if _, err := in.Install(t.Context()); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		install("v1", c.texts[0])
		install("v1", c.texts[1])
		install("v2", c.texts[1])
		set(c.texts[2])
		before := tree(t, dir)[s.override()]
		in, _ := world(dir, "v2", nil)
		if _, err := in.Rollback(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		checkInstalled(t, dir, "v1") // the override alone makes no other generation
		said := strings.Join(in.View.(*lines).said, "; ")
		if strings.Contains(said, s.override()+" isn't what it was when quavon v1 was installed") != c.told {
			t.Errorf("%s: %s", c.name, said)
		}
		if now := tree(t, dir)[s.override()]; now != before {
			t.Errorf("%s: the override is %q, was %q", c.name, now, before)
		}
	}
}

// TestPlanOnlyReads: what another process is doing meanwhile is left alone.
func TestPlanOnlyReads(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	in, _ := world(dir, "v1", nil)
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(in.Target.State(), "phase.json")
	if err := os.WriteFile(path, []byte(`{"schema":1,"seq":1,"phases":["env"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// TestOneHasTheLock: also while others remove the directory with the file that is locked.
func TestOneHasTheLock(t *testing.T) {
	t.Parallel()
	o := journal.Options{Dir: filepath.Join(t.TempDir(), ".quavon"), Version: "v1"}
	var have, got atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1200 {
				j, err := journal.Open(o)
				if err != nil {
					continue // another has it
				}
				got.Add(1)
				if have.Add(1) > 1 {
					t.Error("two have the lock")
				}
				time.Sleep(50 * time.Microsecond)
				have.Add(-1)
				// Whether the directory goes is up to who comes next.
				_ = j.Leave()
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got.Load() == 0 {
		t.Error("nobody got it")
	}
}
