package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// TestTwoInstallations: what one has installed stays as long as another uses it, and goes
// with the last, whichever that is. An installation of before, which is noted nowhere, and
// one that is gone count as none.
func TestTwoInstallations(t *testing.T) {
	t.Parallel()
	first := newRig(t)
	other := *first
	other.dir = "other"
	before := first.read(t)
	for _, c := range []struct {
		name        string
		goes, stays *rig
		begin       func()
	}{
		{"the one that has made it goes", first, &other, func() {}},
		{"the other goes", &other, first, func() {}},
		{"one of before goes", first, &other, func() {
			if err := os.RemoveAll(filepath.Join(first.lib(), usersDir)); err != nil {
				t.Fatal(err)
			}
		}},
		{"a third was never uninstalled", first, &other, func() {
			if err := (user{filepath.Join(first.base, "gone"), first.config()}).note(first.lib()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		first.mustInstall(t)
		c.begin()
		other.mustInstall(t)
		installed := first.read(t)
		in, _ := c.goes.installer()
		changes, err := in.PlanUninstall(true)
		if err != nil {
			t.Fatal(err)
		}
		r, err := in.Uninstall(t.Context(), true)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if c.goes == first {
			want := " stays, as the installation in " + filepath.Join(c.stays.base, c.stays.dir) + " uses it"
			if len(r.Standing) != 2 || !strings.Contains(r.Standing[0].What, first.config()+want) || !strings.Contains(r.Standing[1].What, "runsc"+want) {
				t.Errorf("%s: %v", c.name, r.Standing)
			}
			if changes[0].Action != phase.Check || !strings.Contains(want, changes[0].Summary) {
				t.Errorf("%s, planned: %v", c.name, changes)
			}
		}
		if now := first.read(t); now != installed {
			t.Errorf("%s: daemon.json is other than before: %s", c.name, now)
		}
		c.stays.mustInstall(t) // it looks whether dockerd has it, and changes nothing
		c.stays.mustUninstall(t, before)
		c.goes.clean(t, before)
	}
}

// TestShared: a link is shared by all that use the directory, an entry by those alone whose
// engine has that file.
func TestShared(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"a/.quavon", "b/.quavon", "lib"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	entry := `{"runtimes": {"runsc": {"path": "` + in("lib/runsc/runsc") + `", "runtimeArgs": ["--platform=systrap"]}}}`
	write(t, in("one.json"), []byte(entry))
	write(t, in("two.json"), []byte(entry))
	write(t, in("broken.json"), []byte("{"))
	write(t, in("others.json"), []byte(`{"runtimes": {"runsc": {"path": "/usr/bin/runsc"}}}`))
	for _, u := range []user{{in("a"), in("one.json")}, {in("b"), in("two.json")}, {in("gone"), in("one.json")}} {
		if err := u.note(in("lib")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ dir, path, want string }{
		{"a", "lib/runsc", "b"},
		{"b", "lib/runsc", "a"},
		{"a", "one.json", ""},
		{"a", "two.json", "b"},
		{"b", "one.json", "a"},
		{"a", "broken.json", ""},
		{"a", "others.json", ""},
		{"a", "none.json", ""},
		{"a", ".env", ""},
	} {
		want := c.want
		if want != "" {
			want = in(want)
		}
		if got, err := Shared(in(c.dir), in(c.path)); err != nil || got != want {
			t.Errorf("%s of %s is shared with %q: %v", c.path, c.dir, got, err)
		}
	}
	bad := user{Dir: in("a")}.file(in("lib"))
	write(t, bad, []byte("{"))
	if _, err := Shared(in("b"), in("lib/runsc")); err == nil || !strings.Contains(err.Error(), bad) || fault.Hint(err) == "" {
		t.Errorf("a damaged note: %v", err)
	}
}

// TestTakeOutKeeps: a file with an entry that somebody has changed since, or without any,
// stays as it is; who relies on the entry keeps it.
func TestTakeOutKeeps(t *testing.T) {
	t.Parallel()
	lib, path := t.TempDir(), filepath.Join(t.TempDir(), "daemon.json")
	ours := `"runsc":{"path":"` + lib + `/runsc/runsc","runtimeArgs":["--platform=systrap"]}`
	for text, want := range map[string]string{
		`{"debug":true}`:                       `{"debug":true}`,
		`{"runtimes":{"runsc":{"path":"/x"}}}`: `{"runtimes":{"runsc":{"path":"/x"}}}`,
		`{"runtimes":{` + strings.Replace(ours, `"]`, `","--debug"]`, 1) + `}}`: `{"runtimes":{` + strings.Replace(ours, `"]`, `","--debug"]`, 1) + `}}`,
		`{"runtimes":{"a":{"path":"/a"},` + ours + `},"x":1}`:                   `{"runtimes":{"a":{"path":"/a"}},"x":1}`,
		`{"x":1,"runtimes":{` + ours + `}}`:                                     `{"x":1}`,
		`{"default-runtime":"runsc","runtimes":{` + ours + `}}`:                 "default-runtime",
		`{"runtimes":`: "daemon.json",
	} {
		write(t, path, []byte(text))
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		r := &Runtime{Target: &phase.Target{}} // whose engine doesn't answer
		err := r.takeOut(t.Context(), lib, path, &said{})
		now, readErr := os.ReadFile(path)
		info, statErr := os.Stat(path)
		switch {
		case errors.Join(readErr, statErr) != nil || info.Mode().Perm() != 0o640:
			t.Errorf("%s: %v %v", text, readErr, info.Mode())
		case err != nil && (string(now) != text || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, %s", text, err, now)
		case err == nil && string(now) != want:
			t.Errorf("%s is %s, want %s", text, now, want)
		}
	}
	if err := (&Runtime{}).takeOut(t.Context(), lib, filepath.Join(lib, "none.json"), &said{}); err != nil {
		t.Error(err)
	}
}
