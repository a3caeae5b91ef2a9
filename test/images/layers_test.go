//go:build images

package images

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	it "github.com/quavon/quavon/runner/image/imagetest"
)

// real is an image made of Debian's packages and what comes on top.
type real struct {
	name     string
	packages []string
	// add makes the tar of the layer on top, "" is none.
	add    func(t *testing.T) []byte
	config v1.Config
}

var images = []real{
	{name: "debian", config: v1.Config{Cmd: []string{"bash"}}},
	{
		name: "node", packages: []string{"ca-certificates", "netbase", "libstdc++6", "libatomic1", "git", "procps"},
		add: node, config: v1.Config{WorkingDir: "/opt/app", Env: []string{"NODE_ENV=test"}},
	},
	{
		name: "python", packages: []string{"python3", "python3-venv", "ca-certificates", "netbase", "procps"},
		add: python, config: v1.Config{User: "nobody", Env: []string{"PYTHONPATH=/opt/wheels"}},
	},
	{
		name: "go", packages: []string{"gcc", "libc6-dev", "git", "ca-certificates", "netbase", "procps", "tzdata"},
		add: toolchain, config: v1.Config{Env: []string{"PATH=/usr/local/go/bin:/usr/bin:/bin"}},
	},
}

// cache holds what was made of packages, between runs.
func cache(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("QUAVON_IMAGES_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(base, "quavon", "images")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cached returns a file of the cache, made by make if it isn't there.
func cached(t *testing.T, name string, make func(path string)) []byte {
	t.Helper()
	path := filepath.Join(cache(t), name)
	if _, err := os.Stat(path); err != nil {
		make(path + ".new")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// build makes the image: Debian packed with gzip, the rest with zstd, and a plain
// layer that changes a little of both.
func (r *real) build(t *testing.T) v1.Image {
	t.Helper()
	it.NeedTool(t, "mmdebstrap")
	base := cached(t, r.name+"-base.tar", func(path string) {
		args := []string{"--variant=minbase", "--format=tar"}
		if len(r.packages) > 0 {
			args = append(args, "--include="+strings.Join(r.packages, ","))
		}
		it.Run(t, "mmdebstrap", append(args, "bookworm", path)...)
	})
	blobs := []it.Blob{it.Gzip(t, base)}
	if r.add != nil {
		blobs = append(blobs, it.Zstd(t, r.add(t)))
	}
	blobs = append(blobs, it.Plain(it.Tar(t,
		it.Dir("etc"), it.File("etc/.wh.motd", ""), it.File("etc/issue", "Quavon's test image\n"),
		it.Dir("usr"), it.Dir("usr/share"), it.Dir("usr/share/doc"), it.File("usr/share/doc/.wh..wh..opq", ""),
		it.Link("etc/issue.too", "etc/issue"), it.Symlink("etc/mtab", "/proc/mounts"))))
	return it.Image(t, r.config, blobs...)
}

// node is the host's Node.js and the packages of two well-known projects.
func node(t *testing.T) []byte {
	it.NeedTool(t, "npm")
	return cached(t, "node-layer.tar", func(path string) {
		dir := t.TempDir()
		app := filepath.Join(dir, "opt", "app")
		must(t, os.MkdirAll(app, 0o755))
		cmd := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "express@5", "eslint@9", "mocha@11")
		cmd.Dir = app
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm install: %v\n%s", err, out)
		}
		if n := len(glob(t, app, "node_modules/*")); n < 100 {
			t.Fatalf("only %d packages", n)
		}
		binary, err := filepath.EvalSymlinks(must1(t)(exec.LookPath("node")))
		must(t, err)
		must(t, os.MkdirAll(filepath.Join(dir, "usr", "bin"), 0o755))
		it.Run(t, "cp", binary, filepath.Join(dir, "usr", "bin", "node"))
		must(t, os.WriteFile(path, pack(t, dir, ""), 0o600))
	})
}

// python is scientific wheels for Debian's Python.
func python(t *testing.T) []byte {
	return cached(t, "python-layer.tar", func(path string) {
		dir := t.TempDir()
		venv := filepath.Join(dir, "venv")
		it.Run(t, "/usr/bin/python3", "-m", "venv", venv)
		it.Run(t, filepath.Join(venv, "bin", "pip"), "install", "-q", "--only-binary=:all:",
			"--target", filepath.Join(dir, "root", "opt", "wheels"), "numpy==2.2.6", "scipy==1.15.3", "pandas==2.3.3")
		must(t, os.WriteFile(path, pack(t, filepath.Join(dir, "root"), ""), 0o600))
	})
}

// toolchain is the Go that runs this test.
func toolchain(t *testing.T) []byte {
	root := strings.TrimSpace(it.Run(t, "go", "env", "GOROOT"))
	return pack(t, root, "usr/local/go")
}

// pack makes a layer of a directory, as files of root at prefix.
func pack(t *testing.T, dir, prefix string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "." && prefix == "" {
			return err
		}
		return packEntry(w, path, filepath.Join(prefix, rel))
	}))
	must(t, w.Close())
	return b.Bytes()
}

func packEntry(w *tar.Writer, path, name string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	link := ""
	if fi.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(fi, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if err := w.WriteHeader(h); err != nil || !fi.Mode().IsRegular() {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1(t *testing.T) func(string, error) string {
	return func(s string, err error) string {
		t.Helper()
		must(t, err)
		return s
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return names
}
