package workspace

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	out := base + "/out"
	sh(t, base, `mkdir -p out/dir outside; echo old >out/old; ln -s ../outside out/planted; ln -s ../outside/f out/file-link; mkdir out/is-dir`)
	in := script2tar("0 a a/b||6755|x\n0 a old||600|new\n2 a l|a/b|777|\n2 a a/up|../old|777|\n5 a dir/||755|\n0 a file-link||644|mine\n" +
		"0 a planted/evil||644|x\n2 a abs|/etc/passwd|777|\n2 a esc|../x|777|\n2 a tricky|a/../..|777|\n0 a is-dir||644|x\n5 a old/||755|\n" +
		"0 a .git/hooks/x||755|evil\n0 a sub/.GIT||755|evil")
	got, err := Collect(context.Background(), bytes.NewReader(in), out, plenty)
	must(t, err)
	want := map[string]string{
		"a/": "directory", "a/b": "executable x", "a/up": "link ../old", "old": "file new", "l": "link a/b", "dir/": "directory",
		"file-link": "file mine", "planted": "link ../outside", "is-dir/": "directory",
	}
	if d := cmp.Diff(want, tree(t, out, true)); d != "" {
		t.Error(d)
	}
	var skipped []string
	for _, s := range got.Skipped {
		skipped = append(skipped, s.Path)
	}
	if d := cmp.Diff("planted/evil abs esc tricky is-dir old .git/hooks/x sub/.GIT", strings.Join(skipped, " ")); d != "" || got.Files != 3 || got.Bytes != 8 {
		t.Errorf("%+v %s", got, d)
	}
	checkModes(t, out)
	if list, _ := os.ReadDir(base + "/outside"); len(list) != 0 {
		t.Errorf("outside: %v", list)
	}
}

func TestCollectRefuses(t *testing.T) {
	t.Parallel()
	for script, says := range map[string]string{
		"0 a ../x||644|": "clean", "0 a /x||644|": "clean", "3 a dev||644|": "type", "1 a h|x|644|": "type",
		"0 a x||644|12345678901": "more bytes", "0 a 1||644|\n0 a 2||644|\n0 a 3||644|": "more files",
	} {
		_, err := Collect(context.Background(), bytes.NewReader(script2tar(script)), t.TempDir(), Limits{Bytes: 10, Entries: 2})
		if err == nil || !strings.Contains(err.Error(), says) || fault.Hint(err) == "" {
			t.Errorf("%q: %v", script, err)
		}
	}
}

func TestStaysInside(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, target string
		want         bool
	}{
		{"l", "a", true},
		{"l", "..", false},
		{"l", "/a", false},
		{"d/l", "..", true},
		{"d/l", "../..", false},
		{"d/e/l", "../../x", true},
		{"d/l", "./../x/./y", true},
		{"d/l", "x/../y", false},
		{"l", ".", true},
		{"l", "a/..b", true},
	} {
		if got := staysInside(tc.name, tc.target); got != tc.want {
			t.Errorf("%s -> %s: %v", tc.name, tc.target, got)
		}
	}
}

// FuzzCollect extracts what a hostile guest might send; nothing outside may
// change, and no link may lead there.
func FuzzCollect(f *testing.F) {
	f.Add("0 a a/b||6755|x\n2 a l|a/b|777|\n2 a a/up|../old|777|", []byte{})
	f.Add("2 a d/e/f|../..|777|\n2 a d/g|e/f|777|\n2 a x|d/g/..|777|\n0 a x/outside||644|evil", []byte{})
	f.Add("5 a p/||755|\n2 a p|..|777|\n0 a planted/outside||644|evil", []byte("x"))
	f.Fuzz(func(t *testing.T, script string, raw []byte) {
		base := t.TempDir()
		must(t, os.Mkdir(base+"/in", 0o755))
		must(t, os.WriteFile(base+"/outside", nil, 0o644))
		must(t, os.Symlink("..", base+"/in/planted"))
		Collect(context.Background(), stream(script, raw), base+"/in", Limits{Bytes: 1 << 16, Entries: 32})
		checkOutside(t, base, "in", "outside")
		checkModes(t, base+"/in")
		must(t, os.Remove(base+"/in/planted"))
		checkLinks(t, base+"/in")
	})
}

// checkLinks fails when a link leads out of dir.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return err
		}
		real, err := filepath.EvalSymlinks(path)
		if err == nil && !job.Within(real, dir) {
			t.Errorf("%s leads to %s", path, real)
		}
		return nil
	}))
}
