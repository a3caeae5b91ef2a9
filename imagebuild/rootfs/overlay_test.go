package rootfs_test

import (
	"archive/tar"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/imagebuild/rootfs"
	it "github.com/quavon/quavon/runner/image/imagetest"
)

// TestRandomLayers compares random images with overlays of their layers.
func TestRandomLayers(t *testing.T) {
	t.Parallel()
	it.NeedMount(t)
	seeds := uint64(8)
	if heavy() {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compare(t, seed) })
	}
}

// FuzzLayers does the same for as long as it is let.
func FuzzLayers(f *testing.F) {
	it.NeedMount(f)
	f.Add(uint64(1000))
	f.Fuzz(compare)
}

func compare(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 6))
	layers := it.Random(r, 1+r.IntN(5))
	var tars [][]byte
	for _, l := range layers {
		tars = append(tars, it.Tar(t, l...))
	}
	equal(t, layout(t, tars...), it.Overlay(t, layers...))
}

const capNetRaw = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// odd is what file systems and tools have trouble with.
func odd() []it.Entry {
	list := []it.Entry{it.Dir("./"), it.Dir("names")}
	at := func(sec int64, nsec int64, e it.Entry) {
		e.Mtime = time.Unix(sec, nsec)
		list = append(list, e)
	}
	for i, sec := range []int64{-1<<31 + 1, -1, 0, 1<<31 - 1, 1 << 31, 1 << 32, 1<<33 + 5, 1<<34 - 1<<31 - 2} {
		at(sec, 999_999_999-int64(i), it.File(fmt.Sprintf("time%d", i), "x"))
		at(sec, int64(i), it.Dir(fmt.Sprintf("dir%d", i)))
		at(sec, 1, it.Symlink(fmt.Sprintf("link%d", i), "x"))
	}
	for i, name := range []string{"\xff\xfe", strings.Repeat("n", 255), strings.Repeat("\x80", 255), "ü", "a\nb", " ", "-", "*"} {
		at(1e9, 0, it.File("names/"+name, name))
		at(1e9, 0, it.Link(fmt.Sprint("names/same", i), "names/"+name))
	}
	file := func(name string, change func(e *it.Entry)) {
		e := it.File(name, name)
		change(&e)
		list = append(list, e)
	}
	file("owner", func(e *it.Entry) { e.UID, e.GID = 3_000_000, 1<<32-2 })
	file("setuid", func(e *it.Entry) { e.Mode = 0o6755 })
	file("ping", func(e *it.Entry) { e.Xattrs = map[string]string{"security.capability": capNetRaw} })
	file("attrs", func(e *it.Entry) {
		e.Xattrs = map[string]string{"user.empty": "", "user.mime": "text/plain", "user." + strings.Repeat("n", 200): strings.Repeat("v", 1500)}
	})
	file("sparse", func(e *it.Entry) { e.Body = strings.Repeat(strings.Repeat("\x00", 1<<20)+"data", 5) })
	list = append(list, it.Entry{Type: tar.TypeDir, Name: "sticky", Mode: 0o1777, UID: 3_000_000},
		it.Entry{Type: tar.TypeFifo, Name: "fifo", Mode: 0o600}, it.Symlink("far", strings.Repeat("t/", 2000)+"t"),
		it.Entry{Type: tar.TypeChar, Name: "null", Major: 1, Minor: 3})
	return list
}

// TestOdd has all of it in the bottom layer, and some changed by others.
func TestOdd(t *testing.T) {
	t.Parallel()
	it.NeedMount(t)
	layers := [][]it.Entry{odd(), {
		it.Dir("./"), it.Dir("names"), it.File("names/.wh.ü", ""), it.File("sparse", "no longer"), it.Link("again", "sparse"),
		it.Symlink("dir0", "names"), it.Dir("sticky"), it.File("sticky/f", strings.Repeat("\x00", 300<<10)),
	}}
	equal(t, layout(t, it.Tar(t, layers[0]...), it.Tar(t, layers[1]...)), it.Overlay(t, layers...))
}

// TestManyFiles has 100,000 when heavy, in directories of a hundred.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	it.NeedMount(t)
	n := 2_000
	if heavy() {
		n = 100_000
	}
	list := []it.Entry{it.Dir("./")}
	for k := range n {
		dir := fmt.Sprintf("d%d", k/100)
		if k%100 == 0 {
			list = append(list, it.Dir(dir))
		}
		e := it.File(fmt.Sprintf("%s/some-file-name-%d", dir, k), strings.Repeat(fmt.Sprint(k), k%900))
		e.Mtime = time.Unix(1e9, int64(k))
		list = append(list, e)
	}
	equal(t, layout(t, it.Tar(t, list...)), it.Overlay(t, list))
}

// TestManySubdirectories has more of them than a link count can say.
func TestManySubdirectories(t *testing.T) {
	t.Parallel()
	it.NeedMount(t)
	n := 1_500
	if heavy() {
		n = 70_000
	}
	list := []it.Entry{it.Dir("./"), it.Dir("d")}
	for k := range n {
		list = append(list, it.Dir(fmt.Sprintf("d/%d", k)))
	}
	equal(t, layout(t, it.Tar(t, list...)), it.Overlay(t, list))
}

// TestHugeSparseFile has a file of 6 GiB that is all but holes, in a layer as tar -S
// makes it.
func TestHugeSparseFile(t *testing.T) {
	t.Parallel()
	it.NeedMount(t)
	size := int64(24<<20 + 12345)
	if heavy() {
		size = 6<<30 + 12345
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	must(t, err)
	must(t, f.Truncate(size))
	for at := int64(0); at < size; at += size/7 + 4096 {
		_, err := f.WriteAt([]byte("data"), at)
		must(t, err)
	}
	must(t, f.Close())
	packed := filepath.Join(t.TempDir(), "tar")
	it.Run(t, "tar", "--format=pax", "-S", "-cf", packed, "-C", dir, ".")
	layer, err := os.ReadFile(packed)
	must(t, err)
	if len(layer) > 1<<20 {
		t.Fatalf("the layer has %d bytes: tar found no holes", len(layer))
	}
	from := layout(t, layer)
	equal(t, from, it.OverlayDirs(t, dir))
	for _, kind := range kinds {
		if _, made := build(t, from, rootfs.Options{Kind: kind}); made.Allocated > 4<<20 {
			t.Errorf("%s: %d bytes on disk", kind, made.Allocated)
		}
	}
}
