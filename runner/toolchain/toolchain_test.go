package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/job"
)

// newHost makes a small merged-usr host with things that must not be copied.
func newHost(t *testing.T) string {
	t.Helper()
	host := t.TempDir()
	for name, f := range map[string]struct {
		content string
		mode    fs.FileMode
	}{
		"usr/bin/env":             {"", 0o755},
		"usr/lib/x":               {"", 0o644},
		"etc/ld.so.cache":         {"cache", 0o644},
		"etc/shadow":              {"secret", 0o640},
		"etc/passwd":              {"alice:x:1000", 0o644},
		"etc/npmrc":               {"token", 0o644},
		"etc/ssl/openssl.cnf":     {"cnf", 0o644},
		"etc/ssl/private/key.pem": {"secret", 0o644},
		"etc/ssl/certs/ca.crt":    {"ca", 0o644},
		"etc/ssl/certs/own.crt":   {"secret", 0o600},
		"etc/java-17/jvm.cfg":     {"jvm", 0o755},
	} {
		p := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(f.content), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"bin": "usr/bin", "lib": "/usr/lib", "etc/localtime": "/usr/share/zoneinfo/UTC", "etc/ssl/certs/a.0": "ca.crt",
	} {
		if err := os.Symlink(target, filepath.Join(host, name)); err != nil {
			t.Fatal(err)
		}
	}
	return host
}

func prepare(t *testing.T, c Config) *Tree {
	t.Helper()
	tree, err := Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

func TestTreeHoldsWhatIsAllowed(t *testing.T) {
	host := newHost(t)
	old := syscall.Umask(0o077) // an operator's umask must not close the root to the job
	defer syscall.Umask(old)
	tree := prepare(t, Config{Store: t.TempDir(), Host: host, Mountpoints: []string{"/opt/tool"}})
	for name, mode := range map[string]fs.FileMode{
		".":                   fs.ModeDir | 0o755,
		"proc":                fs.ModeDir | 0o755,
		"workspace":           fs.ModeDir | 0o755,
		"home/quavon":         fs.ModeDir | 0o755,
		"opt/tool":            fs.ModeDir | 0o755,
		".quavon":             fs.ModeDir | 0o755,
		"bin":                 fs.ModeSymlink | 0o777,
		"lib":                 fs.ModeSymlink | 0o777,
		"etc/localtime":       fs.ModeSymlink | 0o777,
		"etc/ld.so.cache":     0o644,
		"etc/ssl/openssl.cnf": 0o644,
		"etc/ssl/certs/a.0":   fs.ModeSymlink | 0o777,
		"etc/java-17/jvm.cfg": 0o755,
		"etc/passwd":          0o644,
	} {
		info, err := os.Lstat(filepath.Join(tree.Dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: got %v, %v; want mode %v", name, info, err, mode)
		}
	}
	for _, name := range []string{"etc/shadow", "etc/npmrc", "etc/ssl/private", "etc/ssl/certs/own.crt", "lib64", "usr/bin"} {
		if _, err := os.Lstat(filepath.Join(tree.Dir, name)); err == nil {
			t.Errorf("%s is in the tree", name)
		}
	}
	passwd, err := os.ReadFile(filepath.Join(tree.Dir, "etc/passwd"))
	if err != nil || strings.Contains(string(passwd), "alice") || !strings.Contains(string(passwd), "quavon:x:60000:60000:") {
		t.Errorf("passwd %q, %v", passwd, err)
	}
}

func TestHostWithoutConfiguration(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	if err := os.MkdirAll(filepath.Join(host, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, "usr/bin/env"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	tree := prepare(t, Config{Store: t.TempDir(), Host: host})
	if _, err := os.Stat(filepath.Join(tree.Dir, "etc/passwd")); err != nil {
		t.Error(err)
	}
}

func TestTreeIsReusedUntilTheHostChanges(t *testing.T) {
	t.Parallel()
	c := Config{Store: t.TempDir(), Host: newHost(t)}
	first := prepare(t, c)
	if again := prepare(t, c); again.Dir != first.Dir {
		t.Errorf("an unchanged host gave %s, then %s", first.Dir, again.Dir)
	}
	seen := map[string]bool{first.Dir: true}
	for name, change := range map[string]func() error{
		"mtime": func() error { return os.Chtimes(filepath.Join(c.Host, "etc/ld.so.cache"), time.Now(), time.Unix(1, 0)) },
		"mode":  func() error { return os.Chmod(filepath.Join(c.Host, "etc/ssl/openssl.cnf"), 0o755) },
		"size":  func() error { return os.WriteFile(filepath.Join(c.Host, "etc/ld.so.cache"), nil, 0o644) },
		"new":   func() error { return os.WriteFile(filepath.Join(c.Host, "etc/ssl/certs/new"), nil, 0o644) },
		"link": func() error {
			p := filepath.Join(c.Host, "etc/ssl/certs/a.0")
			return errors.Join(os.Remove(p), os.Symlink("other.crt", p))
		},
		"layout": func() error { return os.Symlink("usr/lib64", filepath.Join(c.Host, "lib64")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		tree := prepare(t, c)
		if seen[tree.Dir] {
			t.Errorf("%s: the tree from before the change was used", name)
		}
		seen[tree.Dir] = true
	}
	c.Mountpoints = []string{"/opt/other"}
	if tree := prepare(t, c); seen[tree.Dir] {
		t.Error("a new mountpoint got an old tree")
	}
}

func TestBuildersAtOnceAgree(t *testing.T) {
	t.Parallel()
	c := Config{Store: t.TempDir(), Host: newHost(t)}
	var wg sync.WaitGroup
	dirs := make([]string, 16)
	for i := range dirs {
		wg.Go(func() {
			tree, err := Prepare(c)
			if err != nil {
				t.Error(err)
				return
			}
			defer tree.Close() // a lock
			dirs[i] = tree.Dir
			if _, err := os.Stat(filepath.Join(tree.Dir, "etc/passwd")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, d := range dirs {
		if d != dirs[0] {
			t.Errorf("got %s and %s", dirs[0], d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.Store, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPruneKeepsTreesInUse(t *testing.T) {
	t.Parallel()
	c := Config{Store: t.TempDir(), Host: newHost(t)}
	inUse := prepare(t, c)
	if err := os.Chtimes(inUse.Dir, time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(c.Store, buildPrefix+"crashed")
	if err := os.Mkdir(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(stale, time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	for i := range keepTrees + 5 {
		if err := os.Chtimes(filepath.Join(c.Host, "etc/ld.so.cache"), time.Now(), time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
		tree, err := Prepare(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(inUse.Dir); err != nil {
		t.Errorf("the oldest tree was in use, yet: %v", err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("a crashed builder's directory stayed")
	}
	if left, _ := os.ReadDir(c.Store); len(left) > keepTrees+2 {
		t.Errorf("%d trees stayed", len(left))
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(host string) error{
		"no env":       func(h string) error { return os.Remove(filepath.Join(h, "usr/bin/env")) },
		"foreign link": func(h string) error { return os.Symlink("/nix/lib64", filepath.Join(h, "lib64")) },
	} {
		c := Config{Store: t.TempDir(), Host: newHost(t)}
		if err := edit(c.Host); err != nil {
			t.Fatal(err)
		}
		if _, err := Prepare(c); err == nil || !strings.Contains(err.Error(), "toolchain") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestUnmergedHostIsBound(t *testing.T) {
	t.Parallel()
	c := Config{Store: t.TempDir(), Host: newHost(t)}
	if err := os.Mkdir(filepath.Join(c.Host, "lib64"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := prepare(t, c)
	want := job.Mount{Source: filepath.Join(c.Host, "lib64"), Target: "/lib64", Mode: job.MountReadOnly}
	if got := tree.Binds[len(tree.Binds)-1]; got.Source != want.Source || got.Target != want.Target {
		t.Errorf("binds %v, want %v last", tree.Binds, want)
	}
	if info, err := os.Lstat(filepath.Join(tree.Dir, "lib64")); err != nil || !info.IsDir() {
		t.Errorf("no mountpoint for lib64: %v", err)
	}
}

// TestRealHost prepares this machine's own root, also as a user without rights.
func TestRealHost(t *testing.T) {
	tree := prepare(t, Config{Store: t.TempDir()})
	if _, err := os.Stat(filepath.Join(tree.Dir, "etc/passwd")); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	asNobody(t, "^TestRealHost$")
}

// asNobody runs one test of this binary again without root's rights.
func asNobody(t *testing.T, run string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "quavon-nobody-") //nolint:usetesting // nobody has to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", self, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(bin, "-test.run="+run, "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: ") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func BenchmarkPrepareAgain(b *testing.B) {
	c := Config{Store: b.TempDir()}
	first, err := Prepare(c)
	if err != nil {
		b.Fatal(err)
	}
	defer first.Close()
	for b.Loop() {
		tree, err := Prepare(c)
		if err != nil {
			b.Fatal(err)
		}
		_ = tree.Close()
	}
}
