package erofs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	it "github.com/quavon/quavon/runner/image/imagetest"
)

// buildTar makes an image of one layer, any tar.
func buildTar(t *testing.T, r io.Reader, limits flatten.Limits) (string, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	budget := flatten.NewBudget(limits)
	data := erofs.NewData(f, erofs.DataStart, budget)
	upper, err := flatten.Scan(r, 0, data, budget)
	if err != nil {
		return "", err
	}
	tree := flatten.NewTree()
	if err := tree.Merge(upper); err != nil {
		return "", err
	}
	tree.Finish()
	if err := data.Flush(); err != nil {
		t.Fatal(err)
	}
	_, err = erofs.Write(f, data.Offset(), tree, erofs.Options{})
	return f.Name(), err
}

// TestSparse is IM-15, as GNU tar and the POSIX format have it.
func TestSparse(t *testing.T) {
	it.NeedMount(t)
	it.NeedTool(t, "tar")
	for _, format := range []string{"gnu", "posix"} {
		t.Run(format, func(t *testing.T) {
			dir, big := t.TempDir(), t.TempDir()
			sparse(t, filepath.Join(dir, "small"), 256<<20)
			sparse(t, filepath.Join(big, "lastlog"), 300<<30)
			pack := func(dir, name string) *os.File {
				path := filepath.Join(t.TempDir(), "tar")
				it.Run(t, "tar", "-C", dir, "--sparse", "--format="+format, "-cf", path, name)
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			image, err := buildTar(t, pack(dir, "small"), flatten.DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			var st unix.Stat_t
			if err := unix.Stat(image, &st); err != nil || st.Blocks*512 > 1<<20 {
				t.Errorf("%d bytes are allocated, %v", st.Blocks*512, err)
			}
			got := it.List(t, it.MountEROFS(t, image), false)["small"]
			if want := it.List(t, dir, false)["small"]; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			_, err = buildTar(t, pack(big, "lastlog"), flatten.DefaultLimits)
			var entry *flatten.EntryError
			var limit *flatten.TooBigError
			if !errors.As(err, &entry) || entry.Name != "lastlog" || !errors.As(err, &limit) {
				t.Errorf("got %v, want the limit and the name", err)
			}
		})
	}
}

// sparse makes a file with a little data in three places.
func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{5000, size / 2, size - 4} {
		if _, err := f.WriteAt([]byte("data"), at); err != nil {
			t.Fatal(err)
		}
	}
	whole := time.Unix(1_700_000_000, 0) // GNU's format has no fractions
	if err := os.Chtimes(path, whole, whole); err != nil {
		t.Fatal(err)
	}
}

// TestNames is IM-20: long names in every format that has them.
func TestNames(t *testing.T) {
	t.Parallel()
	prefix := strings.Repeat("prefix/", 20)
	for name, c := range map[string]struct {
		format tar.Format
		name   string
		link   string
	}{
		"ustar prefix":  {tar.FormatUSTAR, prefix + strings.Repeat("n", 80), ""},
		"GNU name":      {tar.FormatGNU, prefix + strings.Repeat("n", 200), ""},
		"GNU link":      {tar.FormatGNU, "l", prefix + strings.Repeat("t", 200)},
		"GNU both":      {tar.FormatGNU, prefix + strings.Repeat("l", 200), prefix + strings.Repeat("t", 200)},
		"PAX name":      {tar.FormatPAX, prefix + strings.Repeat("n", 255), ""},
		"PAX link":      {tar.FormatPAX, "l", prefix + strings.Repeat("t", 300)},
		"PAX not ASCII": {tar.FormatPAX, prefix + "grüße", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			h := &tar.Header{Format: c.format, Name: c.name, Linkname: c.link, Typeflag: tar.TypeReg, Mode: 0o644}
			if c.link != "" {
				h.Typeflag = tar.TypeSymlink
			}
			if err := errors.Join(w.WriteHeader(h), w.Close()); err != nil {
				t.Fatal(err)
			}
			tree := flatten.NewTree()
			budget := flatten.NewBudget(flatten.DefaultLimits)
			upper, err := flatten.Scan(&b, 0, nil, budget)
			if err != nil {
				t.Fatal(err)
			}
			if err := tree.Merge(upper); err != nil {
				t.Fatal(err)
			}
			tree.Finish()
			id := flatten.RootID
			var parts []string
			for id = tree.First(id); id != 0; id = tree.First(id) {
				parts = append(parts, string(tree.Name(id)))
				if !tree.Inode(id).IsDir() {
					break
				}
			}
			if d := cmp.Diff(c.name+" "+c.link, strings.Join(parts, "/")+" "+string(tree.Link(id))); d != "" {
				t.Error(d)
			}
		})
	}
}
