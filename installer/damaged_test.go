package installer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/test/need"
)

// TestDamaged: of a journal that makes no sense something is said that can be done, and
// nothing else happens.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"phase.json", "state.json"} {
		for _, text := range []string{
			"", "\x00\x00", `{"schema":9,"version":"v9","seq":99,"phases":["env"]}`,
			`{"schema":1,"seq":99,"phases":PHASES,"RECORDS":[{"kind":"act","phase":"env"}]}`,
			`{"schema":1,"seq":99,"phases":PHASES,"RECORDS":[{"kind":"file","phase":"env","path":"etc/daemon.json"}]}`,
			`{"schema":1,"seq":99,"phases":PHASES,"RECORDS":[{"kind":"dir","phase":"env"}]}`,
			`{"schema":1,"seq":99,"phases":PHASES,"RECORDS":[{"kind":"tree","phase":"env","path":"/x"}]}`,
		} {
			dir := operator(t)
			in, _ := world(dir, "v1", nil)
			if _, err := in.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			phases, records := `["env"]`, "records"
			if name == "state.json" {
				phases, records = "{}", "owned"
			}
			text = strings.NewReplacer("PHASES", phases, "RECORDS", records).Replace(text)
			if err := os.WriteFile(filepath.Join(in.Target.State(), name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			for verb, do := range map[string]func() error{
				"plan":      func() error { _, err := in.Plan(t.Context()); return err },
				"install":   func() error { _, err := in.Install(t.Context()); return err },
				"uninstall": func() error { _, err := in.Uninstall(t.Context(), true); return err },
				"rollback":  func() error { _, err := in.Rollback(t.Context()); return err },
			} {
				if err := do(); err == nil || !strings.Contains(err.Error(), name) || fault.Hint(err) == "" {
					t.Errorf("%s with %s of %q: %v (%s)", verb, name, text, err, fault.Hint(err))
				}
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("%s of %q: %s", name, text, d)
			}
		}
	}
}

// TestChangedTwice: each of two versions of the operator's that an uninstall can't put
// back is kept, though both were in one file and the clock stands still.
func TestChangedTwice(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"v1", "v2"} {
		write("the operator's before " + version)
		in, s := world(dir, version, nil)
		if err := os.Remove(s.running()); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write("the operator's last")
	in, _ := world(dir, "v2", nil)
	r, err := in.Uninstall(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, text := range tree(t, dir) {
		all += text + "\n"
	}
	for _, want := range []string{"before v1", "before v2", "last"} {
		if !strings.Contains(all, "the operator's "+want) {
			t.Errorf("%q is lost: %v", want, r.Standing)
		}
	}
}

// TestLinkedSince: a file that was moved away since, with a link to it left in its place,
// is still the one that our part is taken out of.
func TestLinkedSince(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		dir := operator(t)
		in, _ := world(dir, "v1", nil)
		if _, err := in.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		env, moved := filepath.Join(dir, ".env"), filepath.Join(dir, "etc", ".env")
		if err := errors.Join(os.Rename(env, moved), os.Symlink(moved, env)); err != nil {
			t.Fatal(err)
		}
		if again {
			in, _ := world(dir, "v2", nil)
			if _, err := in.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := in.Uninstall(t.Context(), true); err != nil || len(r.Standing) > 0 {
			t.Errorf("%v %v", err, r.Standing)
		}
		if to, err := os.Readlink(env); err != nil || to != moved {
			t.Errorf("the link: %s %v", to, err)
		}
		if data, err := os.ReadFile(moved); err != nil || string(data) != operatorEnv {
			t.Errorf("%q %v", data, err)
		}
	}
}

// TestBrokenLinkSince: a link to nowhere in a file's place doesn't keep the rest from going.
func TestBrokenLinkSince(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	in, _ := world(dir, "v1", nil)
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(dir, ".env")
	if err := errors.Join(os.Remove(env), os.Symlink("/nowhere/at/all", env)); err != nil {
		t.Fatal(err)
	}
	r, err := in.Uninstall(t.Context(), true)
	if err != nil || len(r.Standing) != 1 || !strings.Contains(r.Standing[0].What, ".env was changed since") {
		t.Errorf("%v %v", err, r.Standing)
	}
	if _, err := os.Lstat(env); err != nil {
		t.Error(err)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, ".quavon", "kept", ".env.*")) // a good pattern
	if len(kept) != 1 {
		t.Errorf("what was in it before isn't kept: %v", kept)
	}
}

// TestDiskFullAtUndo: what can't be taken back for want of room is said, and taken back by
// the next command that has room.
func TestDiskFullAtUndo(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, to mount a small file system")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := os.CopyFS(dir, os.DirFS(operator(t))); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(filepath.Join(dir, ".env"), 0o640)
	in, _ := world(dir, "v1", nil)
	if _, err := in.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill, broken := filepath.Join(dir, "fill"), errors.New("broken")
	in, s := world(dir, "v2", nil)
	s.apply = func(context.Context) error {
		f, err := os.Create(fill)
		for err == nil {
			_, err = f.Write(make([]byte, 4<<10))
		}
		return errors.Join(broken, f.Close())
	}
	r, err := in.Install(t.Context())
	if !errors.Is(err, broken) || len(r.Standing) == 0 || !strings.Contains(err.Error(), "could not be taken back") {
		t.Fatalf("%v %v", err, r.Standing)
	}
	in, _ = world(dir, "v1", nil)
	if _, err := in.Uninstall(t.Context(), false); err == nil {
		t.Error("an uninstall without room succeeds, though it can't note what it does")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	in, _ = world(dir, "v1", nil)
	if r, err := in.Install(t.Context()); err != nil || !r.Changed {
		t.Fatalf("with room again: %v", err)
	}
	checkInstalled(t, dir, "v1")
}
