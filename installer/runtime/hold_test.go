package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/test/need"
)

// TestHold: two installations have gVisor's directory one after the other, by whatever path
// they name it; that of another time is held too, as an uninstall takes it away.
func TestHold(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, who installs")
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	if err := os.Symlink(base, in("link")); err != nil {
		t.Fatal(err)
	}
	hold := func(dir, lib string, sandbox bool) (func() error, error) {
		r := &Runtime{Target: &phase.Target{Dir: in(dir), Sandbox: sandbox, Backend: Backend}, Lib: in(lib)}
		return r.Hold(r.Target.State())
	}
	used := `{"schema": 1, "phases": {}, "owned": [{"phase": "runtime", "kind": "act", "act": {"name": "use", "key": "` + in("lib") + `"}}]}`
	if err := os.MkdirAll(in("noted/.quavon"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, in("noted/.quavon/state.json"), []byte(used))
	for _, c := range []struct {
		name, dir, lib string
		sandbox, waits bool
	}{
		{"the same", "b", "lib", true, true},
		{"by a link", "b", "link/lib", true, true},
		{"another", "b", "other", true, false},
		{"without sandboxes", "b", "lib", false, false},
		{"one that used it", "noted", "other", false, true},
	} {
		release, err := hold("a", "lib", true)
		if err != nil {
			t.Fatal(err)
		}
		second, err := hold(c.dir, c.lib, c.sandbox)
		if (err != nil) != c.waits || err != nil && (!strings.Contains(err.Error(), "another quavon") || fault.Hint(err) == "") {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && second() != nil {
			t.Errorf("%s can't be released", c.name)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		if second, err = hold(c.dir, c.lib, c.sandbox); err != nil {
			t.Fatalf("%s, after the first: %v", c.name, err)
		}
		if err := second(); err != nil {
			t.Error(err)
		}
	}
}

// TestOneHolds: also while others remove the file that is locked, of which none is left.
func TestOneHolds(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, who installs")
	lib := t.TempDir()
	var have, got atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				release, err := hold(lib)
				if err != nil {
					continue // another has it
				}
				got.Add(1)
				if have.Add(1) > 1 {
					t.Error("two hold it")
				}
				have.Add(-1)
				if err := release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got.Load() == 0 {
		t.Error("nobody got it")
	}
	if _, err := os.Lstat(lockOf(lib)); err == nil {
		t.Error("the file is left")
	}
}
