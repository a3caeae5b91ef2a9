package ext4

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

// golden is the image of goldenEntries. It changes only with format.
const golden = "1eb3807d69f27ec037018f15e777622bf8777f64b64136e672c8a0a4713c612f"

// goldenEntries use all parts of the writer, and no generator that may change.
func goldenEntries() []imagetest.Entry {
	list := []imagetest.Entry{
		imagetest.Dir("./"),
		imagetest.Dir("d/"),
		imagetest.Symlink("fast", "d"),
		imagetest.Symlink("slow", strings.Repeat("t", 1000)),
		imagetest.Link("link", "fast"),
		{Type: tar.TypeFifo, Name: "fifo"},
		{Name: "sparse", Body: strings.Repeat("data"+strings.Repeat("\x00", 3*BlockSize), 2000)},
		{Name: "attrs", Xattrs: map[string]string{"user.a": "a", "user.b": strings.Repeat("b", 3000), "user.c": strings.Repeat("c", 30000)}},
	}
	for k := range 3000 {
		list = append(list, imagetest.Entry{Name: fmt.Sprintf("d/%d%s", k, strings.Repeat("n", k%200)), Body: fmt.Sprint(k), UID: k, Mode: 0o640})
	}
	for i := range list {
		list[i].Mtime = time.Unix(int64(i-4)<<20, int64(i))
	}
	return list
}

func sum(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	must(t, err)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestSameBytes builds one input several times, by both ways there are.
func TestSameBytes(t *testing.T) {
	entries := goldenEntries()
	o := Options{Identity: "sha256:0123 linux/amd64", Label: "quavon", Free: 3 << 20, Journal: MinJournal, ResizeInode: true}
	for _, procs := range []int{1, 2, 1} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		image, _ := build(t, o, layer(t, entries...))
		if got := sum(t, image); got != golden {
			t.Errorf("built with %d processors: %s", procs, got)
		}
	}
	image := copyBuild(t, o, layer(t, entries...))
	if got := sum(t, image); got != golden {
		t.Errorf("copied: %s", got)
	}
	o.Identity = "sha256:4567 linux/amd64"
	image, _ = build(t, o, layer(t, entries...))
	if sum(t, image) == golden {
		t.Error("another identity makes no difference")
	}
}

type unlimited struct{}

func (unlimited) SpendWritten(int64) error { return nil }

// copyBuild scans layers into a file of their own and copies from there.
func copyBuild(t testing.TB, o Options, layers ...io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	store, err := os.Create(filepath.Join(dir, "store"))
	must(t, err)
	data := erofs.NewData(store, erofs.DataStart, unlimited{})
	tree := scan(t, data, layers...)
	must(t, data.Flush())
	must(t, store.Truncate(data.Offset()))
	f, err := os.Create(filepath.Join(dir, "image"))
	must(t, err)
	w, err := NewWriter(f, o)
	must(t, err)
	must(t, w.Copy(tree, func(i *flatten.Inode) (io.Reader, error) { return FileRange(store, i.Data, i.Size), nil }))
	_, err = w.Finish(tree)
	must(t, err)
	must(t, f.Close())
	must(t, store.Close())
	return f.Name()
}

func TestCopy(t *testing.T) {
	t.Parallel()
	imagetest.NeedMount(t)
	layers := imagetest.Random(rand.New(rand.NewPCG(3, 5)), 3)
	var tars []io.Reader
	for _, l := range layers {
		tars = append(tars, layer(t, l...))
	}
	image := copyBuild(t, Options{}, tars...)
	check(t, image)
	same(t, image, imagetest.List(t, imagetest.Overlay(t, layers...), true))
}

// TestHash compares with debugfs, which hashes names of ASCII as signed and
// unsigned bytes alike.
func TestHash(t *testing.T) {
	t.Parallel()
	imagetest.NeedTool(t, "debugfs")
	id := newIdentity(&Options{Identity: "hash"})
	var seed [16]byte
	for i, w := range id.hashSeed {
		le.PutUint32(seed[4*i:], w)
	}
	for n := 1; n <= 255; n += 7 {
		name := strings.Repeat("abcdefghijklmnop_", 16)[:n]
		arg := fmt.Sprintf("dx_hash -h half_md4 -s %x-%x-%x-%x-%x %s", seed[:4], seed[4:6], seed[6:8], seed[8:10], seed[10:], name)
		out, err := exec.Command("debugfs", "-R", arg).Output()
		must(t, err)
		major, minor := hashName([]byte(name), id.hashSeed)
		if want := fmt.Sprintf("is 0x%x (minor 0x%x)", major, minor); !strings.Contains(string(out), want) {
			t.Fatalf("debugfs: %s, want %s", out, want)
		}
	}
}

// TestPruneLeavesNothing has a file that an upper layer replaces: its content is
// free space and not in the image.
func TestPruneLeavesNothing(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("deleted content ", 20000)
	image, info := build(t, Options{}, layer(t, imagetest.File("f", secret), imagetest.File("g", "g")), layer(t, imagetest.File("f", "new")))
	check(t, image)
	b, err := os.ReadFile(image)
	must(t, err)
	if strings.Contains(string(b), "deleted content") {
		t.Error("the image has content of a file that was replaced")
	}
	if info.Free < int64(len(secret)) {
		t.Errorf("%d bytes are free", info.Free)
	}
}
