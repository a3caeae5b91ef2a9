package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/need"
)

// mount gives an overlay: the kernel's, or gVisor's inside it. Both mark what
// is gone with the same devices.
func mount(t testing.TB, lower func(dir string)) Overlay {
	t.Helper()
	need.That(t, os.Geteuid() == 0, "root, to mount an overlay")
	base := t.TempDir()
	must(t, syscall.Mount("tmpfs", base, "tmpfs", 0, "mode=0755"))
	t.Cleanup(func() { syscall.Unmount(base, syscall.MNT_DETACH) })
	o := Overlay{Lower: base + "/lower", Upper: base + "/upper", Target: base + "/merged"}
	opts := "redirect_dir=off,metacopy=off,index=off,"
	if dir := os.Getenv(envLower); dir != "" {
		opts = ""
		o.Lower = filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-"))
		t.Cleanup(func() { os.RemoveAll(o.Lower) })
	}
	for _, dir := range []string{o.Lower, o.Upper, o.Target, base + "/work"} {
		must(t, os.Mkdir(dir, 0o755))
	}
	lower(o.Lower)
	opts += "lowerdir=" + o.Lower + ",upperdir=" + o.Upper + ",workdir=" + base + "/work"
	must(t, syscall.Mount("overlay", o.Target, "overlay", 0, opts))
	t.Cleanup(func() { syscall.Unmount(o.Target, syscall.MNT_DETACH) })
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

var plenty = Limits{Bytes: 1 << 30, Entries: 1 << 20}

// record is one entry of a diff as a test sees it.
type record struct {
	header  *tar.Header
	content string
}

func (r record) kind() job.ChangeKind { return job.ChangeKind(r.header.PAXRecords[agent.PAXChange]) }

// diff runs Diff and returns its entries by name, having checked their order.
func diff(t testing.TB, o Overlay, content bool) map[string]record {
	t.Helper()
	var buf bytes.Buffer
	must(t, Diff(o, content, &buf, plenty))
	return readAll(t, &buf)
}

func readAll(t testing.TB, r io.Reader) map[string]record {
	t.Helper()
	all := map[string]record{}
	last := ""
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if h.Name <= last {
			t.Fatalf("%q comes after %q", h.Name, last)
		}
		last = h.Name
		b, err := io.ReadAll(tr)
		must(t, err)
		all[h.Name] = record{h, string(b)}
	}
}

// tree describes everything below dir: path, with a "/" behind directories, to
// a description in which equal means "no change for git". Special files are
// left out.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel := strings.TrimPrefix(path, dir+"/")
		fi, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case fi.IsDir():
			all[rel+"/"] = "directory"
		case fi.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			must(t, err)
			all[rel] = "link " + link
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(path)
			must(t, err)
			exec := "file "
			if fi.Mode()&0o100 != 0 {
				exec = "executable "
			}
			all[rel] = exec + string(b)
		}
		return nil
	}))
	return all
}
