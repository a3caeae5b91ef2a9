package ext4

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/imagetest"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("v", 40000)
	file := func(change func(e *imagetest.Entry)) imagetest.Entry {
		e := imagetest.File("f", "x")
		e.Mtime = time.Unix(1e9, 0)
		change(&e)
		return e
	}
	sparse := strings.Repeat("\x00", 5*windowSize)
	tests := map[string][]imagetest.Entry{
		"setuid":        {file(func(e *imagetest.Entry) { e.Mode = 0o7755 })},
		"uid 3,000,000": {file(func(e *imagetest.Entry) { e.UID, e.GID = 3_000_000, 1<<32-2 })},
		"1901":          {file(func(e *imagetest.Entry) { e.Mtime = time.Unix(minTime, 1) })},
		"before 1970":   {file(func(e *imagetest.Entry) { e.Mtime = time.Unix(-1, 999_999_999) })},
		"2038":          {file(func(e *imagetest.Entry) { e.Mtime = time.Unix(1<<31, 0) })},
		"2106":          {file(func(e *imagetest.Entry) { e.Mtime = time.Unix(1<<32, 5) })},
		"2446":          {file(func(e *imagetest.Entry) { e.Mtime = time.Unix(maxTime, 999_999_999) })},
		"capability":    {file(func(e *imagetest.Entry) { e.Xattrs = map[string]string{"security.capability": capNetRaw} })},
		"empty value":   {file(func(e *imagetest.Entry) { e.Xattrs = map[string]string{"user.e": ""} })},
		"long names":    {file(func(e *imagetest.Entry) { e.Xattrs = map[string]string{"user." + strings.Repeat("n", 250): "v"} })},
		"big value":     {file(func(e *imagetest.Entry) { e.Xattrs = map[string]string{"user.big": big} })},
		"big values": {file(func(e *imagetest.Entry) {
			e.Xattrs = map[string]string{"user.a": big, "user.b": big[:5000], "user.c": "c"}
		})},
		"zeros in a value":  {file(func(e *imagetest.Entry) { e.Xattrs = map[string]string{"user.z": sparse[:30000]} })},
		"hole":              {file(func(e *imagetest.Entry) { e.Body = sparse })},
		"hole at the end":   {file(func(e *imagetest.Entry) { e.Body = "x" + sparse })},
		"hole at the start": {file(func(e *imagetest.Entry) { e.Body = sparse + "x" })},
		"name of 255 bytes": {imagetest.File(strings.Repeat("n", 255), "x")},
		"name of bytes":     {imagetest.File("\xff\x80\x01", "x")},
		"symlink fast":      {imagetest.Symlink("l", strings.Repeat("t", maxFastLink))},
		"symlink slow":      {imagetest.Symlink("l", strings.Repeat("t", maxFastLink+1))},
		"symlink longest":   {imagetest.Symlink("l", strings.Repeat("t", maxSymlink))},
	}
	for name, entries := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range entries {
				if entries[i].Mtime.IsZero() {
					entries[i].Mtime = time.Unix(1e9, 0)
				}
			}
			image, _ := build(t, Options{}, layer(t, entries...))
			check(t, image)
			got := kernelList(t, image)
			for path, want := range expect(t, entries) {
				if got[path] != want {
					t.Errorf("%.50q: got %.300s, want %.300s", path, got[path], want)
				}
			}
		})
	}
}

const capNetRaw = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func kernelList(t testing.TB, image string) map[string]string {
	t.Helper()
	dir, unmount := mount(t, image, "ro")
	defer unmount()
	return list(t, dir)
}

// TestE2fsckDistrustsTimes documents a limit of e2fsck: it takes times of these
// years for a mistake of old kernels. Linux reads them right.
func TestE2fsckDistrustsTimes(t *testing.T) {
	t.Parallel()
	e := imagetest.File("f", "")
	e.Mtime = time.Unix(3<<32-1<<31, 7)
	image, _ := build(t, Options{}, layer(t, e))
	if got, want := kernelList(t, image)["f"], line(e); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSparseKeepsHoles(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("\x00", 64<<20) + "x" + strings.Repeat("\x00", 64<<20)
	image, info := build(t, Options{}, layer(t, imagetest.File("f", body)))
	check(t, image)
	if info.Size > 2<<20 {
		t.Errorf("image has %d bytes", info.Size)
	}
	dir, unmount := mount(t, image, "ro")
	defer unmount()
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(dir, "f"), &st))
	if st.Blocks != BlockSize/512 || st.Size != int64(len(body)) {
		t.Errorf("%d sectors of %d bytes", st.Blocks, st.Size)
	}
}

// TestWritable changes a mounted image in every way that meets what the writer
// laid out, and has e2fsck look at the result.
func TestWritable(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Free: 32 << 20},
		{Free: 32 << 20, Journal: MinJournal, ResizeInode: true},
		{Size: 256 << 20},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			t.Parallel()
			entries := randomLayer(rand.New(rand.NewPCG(7, 7)))
			image, _ := build(t, o, layer(t, entries...))
			dir, unmount := mount(t, image, "rw")
			for _, e := range entries[1:] {
				if e.Name[0]%2 == 0 {
					must(t, os.RemoveAll(filepath.Join(dir, e.Name)))
				}
			}
			many := filepath.Join(dir, "many")
			must(t, os.Mkdir(many, 0o755))
			for k := range 1500 {
				must(t, os.WriteFile(filepath.Join(many, fmt.Sprint(k, strings.Repeat("n", 100))), []byte("x"), 0o600))
			}
			must(t, unix.Setxattr(many, "user.x", make([]byte, 900), 0))
			must(t, os.WriteFile(filepath.Join(dir, "big"), make([]byte, 8<<20), 0o600))
			unmount()
			check(t, image)
		})
	}
}

func TestFreeIsUsable(t *testing.T) {
	t.Parallel()
	for _, free := range []int64{1 << 20, 100 << 20, 1 << 30, 5 << 30} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			t.Parallel()
			image, info := build(t, Options{Free: free, FreeInodes: 100}, layer(t, imagetest.File("f", "x")))
			check(t, image)
			dir, unmount := mount(t, image, "rw")
			defer unmount()
			var st unix.Statfs_t
			must(t, unix.Statfs(dir, &st))
			if got := int64(st.Bavail) * st.Bsize; got < free || got > free+free/20+1<<20 {
				t.Errorf("%d bytes are available, want %d", got, free)
			}
			if int64(st.Bfree)*BlockSize != info.Free || int64(st.Ffree) != info.FreeInodes || info.FreeInodes < 100 {
				t.Errorf("the kernel counts %d blocks and %d inodes free, the writer %+v", st.Bfree, st.Ffree, info)
			}
		})
	}
}

// TestResize grows images, across descriptor blocks too.
func TestResize(t *testing.T) {
	t.Parallel()
	imagetest.NeedTool(t, "resize2fs")
	entries := randomLayer(rand.New(rand.NewPCG(8, 8)))
	want := expect(t, entries)
	for _, o := range []Options{
		{},
		{ResizeInode: true},
		{ResizeInode: true, Journal: MinJournal, Free: 140 << 20},
	} {
		for _, size := range []int64{300 << 20, 1 << 30, 20 << 30} {
			t.Run(fmt.Sprintf("%v %v %d", o.ResizeInode, o.Journal, size), func(t *testing.T) {
				t.Parallel()
				image, _ := build(t, o, layer(t, entries...))
				must(t, os.Truncate(image, size))
				imagetest.Run(t, "resize2fs", image)
				check(t, image)
				same(t, image, want)
				image, _ = build(t, o, layer(t, entries...))
				must(t, os.Truncate(image, size))
				growMounted(t, image)
				check(t, image)
				same(t, image, want)
			})
		}
	}
}

// growMounted resizes a mounted image, for which Linux asks CAP_SYS_RESOURCE.
func growMounted(t *testing.T, image string) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	var caps uint64
	_, effective, _ := strings.Cut(string(status), "CapEff:")
	_, err = fmt.Sscanf(effective, "%x", &caps)
	must(t, err)
	if caps&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		t.Log("not grown while mounted: CAP_SYS_RESOURCE is missing")
		return
	}
	dir, unmount := mount(t, image, "rw")
	defer unmount()
	imagetest.Run(t, "resize2fs", strings.TrimSpace(imagetest.Run(t, "findmnt", "-no", "SOURCE", dir)))
}

func TestFixedSize(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 3<<20)
	for _, size := range []int64{4 << 20, 100 << 20, 128 << 20, 128<<20 + BlockSize, 200 << 20, 3 << 30} {
		image, info := build(t, Options{Size: size}, layer(t, imagetest.File("f", body)))
		if info.Size != size {
			t.Errorf("%d bytes, want %d", info.Size, size)
		}
		check(t, image)
	}
	o := Options{Size: 2 << 20}
	var small *TooSmallError
	if _, err := tryBuild(t, o, layer(t, imagetest.File("f", body))); !errors.As(err, &small) {
		t.Fatalf("got %v", err)
	}
	if small.Size != o.Size || small.Need <= 3<<20 || small.Need > 4<<20 {
		t.Errorf("%+v", small)
	}
	o.Size = small.Need // what the error says is enough
	image, _ := build(t, o, layer(t, imagetest.File("f", body)))
	check(t, image)
	o.Size -= BlockSize
	if _, err := tryBuild(t, o, layer(t, imagetest.File("f", body))); !errors.As(err, &small) {
		t.Errorf("one block less: %v", err)
	}
}

func tryBuild(t testing.TB, o Options, layers ...io.Reader) (*Info, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer func() { must(t, f.Close()) }()
	w, err := NewWriter(f, o)
	if err != nil {
		return nil, err
	}
	tree := scan(t, w, layers...)
	must(t, w.Prune(tree))
	return w.Finish(tree)
}
