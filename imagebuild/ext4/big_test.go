package ext4

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

func TestSubdirectories(t *testing.T) {
	t.Parallel()
	for _, n := range []int{MaxLinks - 3, MaxLinks - 2, MaxLinks - 1, 70_000} {
		if n < 70_000 && !heavy() {
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for k := range n {
				must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d/%d/", k), Mode: 0o700}))
			}
			must(t, w.Close())
			image, _ := build(t, Options{}, &b)
			check(t, image)
			dir, unmount := mount(t, image, "ro")
			defer unmount()
			sub, err := os.ReadDir(filepath.Join(dir, "d"))
			must(t, err)
			if len(sub) != n {
				t.Fatalf("%d subdirectories", len(sub))
			}
			for k := range n {
				var st unix.Stat_t
				must(t, unix.Lstat(filepath.Join(dir, "d", fmt.Sprint(k)), &st))
			}
			var st unix.Stat_t
			must(t, unix.Stat(filepath.Join(dir, "d"), &st))
			if want := uint64(dirLinks(uint32(n) + 2)); st.Nlink != want {
				t.Errorf("%d links, want %d", st.Nlink, want)
			}
		})
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	n := 20_000
	if heavy() {
		n = 100_000
	}
	entries := []imagetest.Entry{imagetest.Dir("./")}
	for k := range n {
		dir := fmt.Sprintf("d%d/", k/1000)
		if k%1000 == 0 {
			entries = append(entries, imagetest.Dir(dir))
		}
		entries = append(entries, imagetest.File(fmt.Sprintf("%sf%d", dir, k), fmt.Sprint(k)))
	}
	for i := range entries {
		entries[i].Mtime = time.Unix(1e9, int64(i))
	}
	image, _ := build(t, Options{Free: 1 << 20}, layer(t, entries...))
	check(t, image)
	same(t, image, expect(t, entries))
}

// TestIndexLevels has a directory whose index is two levels deep, and with
// QUAVON_HEAVY=1 one that needs large_dir.
func TestIndexLevels(t *testing.T) {
	t.Parallel()
	for _, n := range []int{12_000, 4_000_000} {
		if n > 1_000_000 && !heavy() {
			continue
		}
		long := strings.Repeat("n", 240)
		r, w := io.Pipe()
		go func() {
			tw := tar.NewWriter(w)
			var err error
			for k := 0; k < n && err == nil; k++ {
				err = tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("d/%s%015d", long, k), Mode: 0o600})
			}
			_ = w.CloseWithError(cmpErr(err, tw.Close))
		}()
		image, _ := build(t, Options{}, r)
		check(t, image)
		dir, unmount := mount(t, image, "ro")
		for k := 0; k < n; k += 7 {
			var st unix.Stat_t
			must(t, unix.Lstat(fmt.Sprintf("%s/d/%s%015d", dir, long, k), &st))
		}
		unmount()
	}
}

func cmpErr(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// spots is a file of zeros with a block of data at every step.
type spots struct{ at, size, step int64 }

func (s *spots) Read(p []byte) (int, error) {
	phase := s.at % s.step
	n := min(int64(len(p)), s.size-s.at)
	if n == 0 {
		return 0, io.EOF
	}
	if phase >= BlockSize {
		n = min(n, s.step-phase)
		clear(p[:n])
	} else {
		n = min(n, BlockSize-phase)
		copy(p[:n], bytes.Repeat([]byte{byte(s.at/s.step)%255 + 1}, int(n)))
	}
	s.at += n
	return int(n), nil
}

// sparseSpots passes its holes by.
type sparseSpots struct{ spots }

func (s *sparseSpots) Hole() (int64, error) {
	if s.at%s.step < BlockSize {
		return 0, nil
	}
	n := min(s.step-s.at%s.step, s.size-s.at)
	s.at += n
	return n, nil
}

func tarOf(t testing.TB, size int64, body io.Reader) io.Reader {
	t.Helper()
	var b bytes.Buffer
	must(t, tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "f", Size: size, Mode: 0o644}))
	pad := make([]byte, -size&511+1024)
	return io.MultiReader(&b, body, bytes.NewReader(pad))
}

// TestSpots has files with holes between blocks of data: with extent trees of
// every depth, beyond 4 GiB, read as they are or hole by hole.
func TestSpots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, step int64
		heavy      bool
	}{
		{4*2*BlockSize + 1, 2 * BlockSize, false},
		{5 * 2 * BlockSize, 2 * BlockSize, false},
		{1360 * 2 * BlockSize, 2 * BlockSize, false},
		{1361 * 2 * BlockSize, 2 * BlockSize, false},
		{6<<30 + 12345, 7 << 20, false},
		{5 << 30, 1 << 14, true},
	} {
		if c.heavy && !heavy() {
			continue
		}
		t.Run(fmt.Sprint(c.size, " ", c.step), func(t *testing.T) {
			image, info := build(t, Options{}, tarOf(t, c.size, &spots{0, c.size, c.step}))
			if data := ceilDiv(c.size, c.step) * BlockSize; info.Size > data+data/50+2<<20 {
				t.Errorf("%d bytes for %d of data", info.Size, data)
			}
			check(t, image)
			checkSpots(t, image, c.size, c.step)
		})
	}
}

// checkSpots finds data exactly where it was, as the kernel sees it.
func checkSpots(t *testing.T, image string, size, step int64) {
	t.Helper()
	dir, unmount := mount(t, image, "ro")
	defer unmount()
	f, err := os.Open(filepath.Join(dir, "f"))
	must(t, err)
	defer func() { must(t, f.Close()) }()
	if st, err := f.Stat(); err != nil || st.Size() != size {
		t.Fatalf("%v %v", st, err)
	}
	var got, want [BlockSize]byte
	for at := int64(0); at < size; at += step {
		data, err := f.Seek(max(0, at-step+BlockSize), unix.SEEK_DATA)
		must(t, err)
		if data != at {
			t.Fatalf("data at %d, want %d", data, at)
		}
		n, err := f.ReadAt(got[:], at)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_, _ = (&spots{at, size, step}).Read(want[:])
		if !bytes.Equal(got[:n], want[:n]) {
			t.Fatalf("other data at %d", at)
		}
	}
}

func TestExplicitHoles(t *testing.T) {
	t.Parallel()
	for _, step := range []int64{2 * BlockSize, 3*BlockSize + 100, 1<<30 + 5, 7 << 40} {
		size := 5*step + 777
		size = min(size, maxFile)
		var files [2]string
		for k := range files {
			f, err := os.Create(filepath.Join(t.TempDir(), "image"))
			must(t, err)
			w, err := NewWriter(f, Options{})
			must(t, err)
			var r io.Reader = &sparseSpots{spots{0, size, step}}
			if k == 1 && size < 1<<33 {
				r = &spots{0, size, step}
			}
			tree := scan(t, swap{w, r, size}, tarOf(t, 1, strings.NewReader("x")))
			must(t, tree.Inodes(setSize(size)))
			_, err = w.Finish(tree)
			must(t, err)
			must(t, f.Close())
			files[k] = f.Name()
		}
		check(t, files[0])
		if step%BlockSize == 0 {
			checkSpots(t, files[0], size, step)
		}
		imagetest.Run(t, "cmp", files[0], files[1])
	}
}

// swap stores other content than a tar has.
type swap struct {
	w    *Writer
	r    io.Reader
	size int64
}

func (s swap) Append(io.Reader, int64) (int64, error) { return s.w.Append(s.r, s.size) }

func setSize(size int64) func(flatten.ID, *flatten.Inode) error {
	return func(_ flatten.ID, i *flatten.Inode) error {
		i.Size = size
		return nil
	}
}
