package erofs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

// build flattens layers, bottom first, into an image.
func build(t testing.TB, xattrs bool, layers ...[]imagetest.Entry) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	budget := flatten.NewBudget(flatten.DefaultLimits)
	data := erofs.NewData(f, erofs.DataStart, budget)
	tree := flatten.NewTree()
	for i, entries := range layers {
		upper, err := flatten.Scan(bytes.NewReader(imagetest.Tar(t, entries...)), i, data, budget)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Merge(upper); err != nil {
			t.Fatal(err)
		}
	}
	tree.Finish()
	if err := data.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := erofs.Write(f, data.Offset(), tree, erofs.Options{Xattrs: xattrs}); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestEqualsOverlayfs compares what the kernel sees in the image with what it
// sees in an overlay of the same layers.
func TestEqualsOverlayfs(t *testing.T) {
	imagetest.NeedMount(t)
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compare(t, seed, true) })
	}
}

// FuzzEqualsOverlayfs does the same for as long as it is let.
func FuzzEqualsOverlayfs(f *testing.F) {
	imagetest.NeedMount(f)
	f.Add(uint64(0))
	f.Fuzz(func(t *testing.T, seed uint64) { compare(t, seed, false) })
}

func compare(t *testing.T, seed uint64, fsck bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	layers := imagetest.Random(r, 1+r.IntN(5))
	image := build(t, true, layers...)
	if fsck {
		imagetest.Fsck(t, image)
	}
	got := imagetest.List(t, imagetest.MountEROFS(t, image), true)
	want := imagetest.List(t, imagetest.Overlay(t, layers...), true)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("overlayfs (-) and the image (+) differ:\n%s", d)
	}
}
