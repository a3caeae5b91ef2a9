package rootfs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/rootfs"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// kinds are the formats; every test of content is one of both.
var kinds = []lock.Kind{lock.KindExt4, lock.KindEROFS}

// heavy asks for what takes minutes or gigabytes.
func heavy() bool { return os.Getenv("QUAVON_HEAVY") == "1" }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the one image of a layout or an archive.
func open(t testing.TB, path string) *source.Image {
	t.Helper()
	img, err := source.File(t.Context(), path, source.Select{Platform: source.Host()}, t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, img.Close()) })
	return img
}

// layout makes an image of layers packed with gzip.
func layout(t testing.TB, layers ...[]byte) string {
	t.Helper()
	var blobs []it.Blob
	for _, l := range layers {
		blobs = append(blobs, it.Gzip(t, l))
	}
	return it.Layout(t, it.Image(t, v1.Config{}, blobs...))
}

// build makes a file system in a directory of its own and has it checked.
func build(t testing.TB, from string, o rootfs.Options) (string, *rootfs.Made) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	made, had, err := new(rootfs.Maker).Make(t.Context(), open(t, from), path, o)
	must(t, err)
	if had {
		t.Error("it was there before it was made")
	}
	check(t, o.Kind, path)
	return path, made
}

// check has the format's own tool look for mistakes.
func check(t testing.TB, kind lock.Kind, path string) {
	t.Helper()
	if kind == lock.KindEROFS {
		it.Fsck(t, path)
		return
	}
	it.NeedTool(t, "e2fsck")
	out, err := exec.Command("e2fsck", "-fn", path).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("? no")) {
		t.Fatalf("e2fsck: %v\n%s", err, out)
	}
}

// list is what the kernel shows of an image, without the directory that every ext4
// has.
func list(t testing.TB, kind lock.Kind, path string) map[string]string {
	t.Helper()
	m := it.List(t, it.MountImage(t, string(kind), path), true)
	delete(m, "lost+found")
	return m
}

// equal compares all formats of an image with an overlay.
func equal(t *testing.T, from, overlay string) {
	t.Helper()
	want := it.List(t, overlay, true)
	for _, kind := range kinds {
		path, made := build(t, from, rootfs.Options{Kind: kind})
		got := list(t, kind, path)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("overlayfs (-) and %s (+) differ:\n%.5000s", kind, d)
		}
		if made.Entries != int64(len(got)) {
			t.Errorf("%s: %d entries, there are %d", kind, made.Entries, len(got))
		}
	}
}
