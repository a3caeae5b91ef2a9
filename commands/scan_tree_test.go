package commands

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/scan"
	"github.com/quavon/quavon/test/need"
)

// testRepo is a repository whose branch work has left main: it adds lines, moves a
// file, and changes the configuration for itself.
func testRepo(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		need.Skip(t, "git is missing: %v", err)
	}
	dir := t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
	}
	long := strings.Repeat("line\n", 20)
	git("init", "-q", "-b", "main")
	write("sub/a.py", "one\ntwo\nthree\n")
	write("sub/old name.py", long)
	write(".quavon/config.yml", "tools: {sast: {disable: [ruff]}}\n")
	git("add", ".")
	git("commit", "-qm", "base")
	git("checkout", "-qb", "work")
	write("sub/a.py", "zero\none\ntwo\nthree\n")
	git("mv", "sub/old name.py", "sub/new \xe9\nname.py")
	write(".quavon/config.yml", "tools: {sast: {disable: [gitleaks, bandit], ignorePaths: ['**']}}\n")
	git("commit", "-qam", "work")
	git("checkout", "-q", "main")
	write("later", "main goes on\n")
	git("add", "later")
	git("commit", "-qm", "later")
	git("checkout", "-q", "work")
	write("sub/a.py", "zero\none\ntwo\nthree\nfour\n") // not committed
	write("sub/new.py", "all\nnew\n")                  // not even known
	write("outside", "secret\n")
	if err := os.Symlink("../outside", filepath.Join(dir, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openTestTree(t *testing.T, dir, changed string) (*scanOptions, *scanTree) {
	t.Helper()
	tree, err := openScanTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	o := &scanOptions{program: &program{Log: slog.New(slog.DiscardHandler)}, Changed: changed}
	if err := o.findBase(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	return o, tree
}

func TestScanChanged(t *testing.T) {
	t.Parallel()
	_, tree := openTestTree(t, filepath.Join(testRepo(t), "sub"), "main")
	for path, want := range map[string]string{
		"sub/a.py":              "+   +",
		"sub/new.py":            "++",
		"sub/new \xe9\nname.py": "     ",
		"sub/link":              "+", // it leads out, so nothing is known of it
		"sub/none":              "+",
		"elsewhere":             "+",
	} {
		lines, err := tree.changed(context.WithoutCancel(t.Context()), path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		got := ""
		for i := range len(want) {
			got += map[bool]string{true: "+", false: " "}[lines.Touch(i+1, i+1)]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	if tree.read("sub/link") != nil {
		t.Error("a link out of the directory was followed")
	}
}

func TestScanConfig(t *testing.T) {
	t.Parallel()
	dir := testRepo(t)
	for _, c := range []struct{ sub, changed, from, want string }{
		{"", "main", "", "ruff"},
		{"sub", "main", "", "ruff"},
		{"sub", "", "", "gitleaks bandit"},
		{"", "", "main", "ruff"},
		{"", "main", "work", "gitleaks bandit"},
		{"", "main", "none", ""},
		{"", "main", "dir", "gitleaks bandit"},
	} {
		o, tree := openTestTree(t, filepath.Join(dir, c.sub), c.changed)
		o.ConfigFrom = c.from
		got, err := o.config(t.Context(), tree)
		if err != nil || strings.Join(got.Disable, " ") != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, scan.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, scan.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	o, tree := openTestTree(t, dir, "")
	fifo := filepath.Join(dir, "fifo.py")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if tree.read("fifo.py") != nil {
		t.Error("a pipe was read")
	}
	if c, err := o.config(t.Context(), tree); err == nil {
		t.Errorf("a link out of the repository was followed: %+v", c)
	}
}
