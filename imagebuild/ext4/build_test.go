package ext4

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

// scan reads layers, plain tars, into one tree.
func scan(t testing.TB, data flatten.Data, layers ...io.Reader) *flatten.Tree {
	t.Helper()
	tree := flatten.NewTree()
	for i, r := range layers {
		layer, err := flatten.Scan(r, i, data, flatten.NewBudget(flatten.DefaultLimits))
		must(t, err)
		must(t, tree.Merge(layer))
	}
	tree.Finish()
	return tree
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// build makes an image of layers in one pass.
func build(t testing.TB, o Options, layers ...io.Reader) (string, *Info) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer func() { must(t, f.Close()) }()
	w, err := NewWriter(f, o)
	must(t, err)
	tree := scan(t, w, layers...)
	must(t, w.Prune(tree))
	info, err := w.Finish(tree)
	must(t, err)
	return f.Name(), info
}

func layer(t testing.TB, entries ...imagetest.Entry) io.Reader {
	t.Helper()
	return bytes.NewReader(imagetest.Tar(t, entries...))
}

// check has e2fsck look at an image, which must find nothing to say.
func check(t testing.TB, image string) {
	t.Helper()
	imagetest.NeedTool(t, "e2fsck")
	out, err := exec.Command("e2fsck", "-fn", image).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("? no")) {
		t.Fatalf("e2fsck: %v\n%s", err, out)
	}
}

// mount shows what the kernel sees, until unmount or the end of the test.
func mount(t testing.TB, image, options string) (dir string, unmount func()) {
	t.Helper()
	imagetest.NeedMount(t)
	dir = t.TempDir()
	imagetest.Run(t, "mount", "-t", "ext4", "-o", "loop,"+options, image, dir)
	done := false
	unmount = func() {
		if !done {
			done = true
			must(t, imagetest.Unmount(dir))
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

// list is imagetest.List without the directory that every ext4 has.
func list(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := imagetest.List(t, dir, true)
	delete(m, lostFound)
	return m
}

// same compares what the kernel shows of an image with want.
func same(t testing.TB, image string, want map[string]string) {
	t.Helper()
	dir, unmount := mount(t, image, "ro")
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("image differs (-want +got):\n%.5000s", diff)
	}
	unmount()
}

// expect lists one layer's entries as list does. Names are clean, each is there
// once, and the root is among them.
func expect(t testing.TB, entries []imagetest.Entry) map[string]string {
	t.Helper()
	lines := map[string]string{}
	groups := map[string][]string{}
	for _, e := range entries {
		name := path.Clean(e.Name)
		if e.Type == tar.TypeLink {
			target := path.Clean(e.Link)
			lines[name] = lines[target]
			groups[target] = append(groups[target], name)
			continue
		}
		lines[name] = line(e)
		groups[name] = []string{name}
	}
	for _, names := range groups {
		if len(names) == 1 {
			continue
		}
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
		})
		for _, name := range names {
			lines[name] += fmt.Sprintf(" same=%q", names)
		}
	}
	return lines
}

func line(e imagetest.Entry) string {
	mode, tail := uint32(e.Mode&0o7777), ""
	switch e.Type {
	case tar.TypeDir:
		mode |= unix.S_IFDIR
	case tar.TypeFifo:
		mode |= unix.S_IFIFO
	case tar.TypeSymlink:
		mode = unix.S_IFLNK | 0o777
		tail = fmt.Sprintf(" -> %q", e.Link)
	default:
		mode |= unix.S_IFREG
		tail = fmt.Sprintf(" %d %x", len(e.Body), sha256.Sum256([]byte(e.Body)))
	}
	s := fmt.Sprintf("%o %d:%d %d.%09d%s", mode, e.UID, e.GID, e.Mtime.Unix(), e.Mtime.Nanosecond(), tail)
	var names []string
	for name := range e.Xattrs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s += fmt.Sprintf(" %s=%q", name, e.Xattrs[name])
	}
	return s
}
