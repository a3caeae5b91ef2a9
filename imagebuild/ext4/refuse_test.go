package ext4

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

// TestRefuses has what ext4 can't hold: an error that names the file, no loss.
func TestRefuses(t *testing.T) {
	t.Parallel()
	at := func(sec, nsec int64) imagetest.Entry {
		e := imagetest.File("d/f", "")
		e.Mtime = time.Unix(sec, nsec)
		return e
	}
	links := []imagetest.Entry{imagetest.File("d/f", "")}
	for k := range MaxLinks {
		links = append(links, imagetest.Link(fmt.Sprint("d/l", k), "d/f"))
	}
	names := imagetest.File("d/f", "")
	names.Xattrs = map[string]string{}
	for k := range 17 {
		names.Xattrs["user."+strings.Repeat("n", 230)+string(rune('a'+k))] = ""
	}
	tests := map[string]struct {
		path    string
		entries []imagetest.Entry
	}{
		"before 1901":      {"/d/f", []imagetest.Entry{at(minTime-1, 999_999_999)}},
		"after 2446":       {"/d/f", []imagetest.Entry{at(maxTime+1, 0)}},
		"65,001 names":     {"/d/f", links},
		"attribute names":  {"/d/f", []imagetest.Entry{names}},
		"lost+found, file": {lostFound, []imagetest.Entry{imagetest.File(lostFound, "")}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryBuild(t, Options{}, layer(t, c.entries...))
			var e *EntryError
			if !errors.As(err, &e) || e.Path != c.path {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := tryBuild(t, Options{}, layer(t, links[:MaxLinks]...)); err != nil {
		t.Errorf("65,000 names: %v", err)
	}
}

func TestRefusesOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Label: "a label of more than 16 bytes"},
		{Size: 1 << 20, MaxSize: 1 << 19},
		{Size: 4097},
		{Free: -1},
		{Free: 1 << 50},
		{FreeInodes: 1 << 40},
		{MaxSize: 1 << 44},
		{MaxSize: 9 << 40, ResizeInode: true},
		{Journal: BlockSize},
		{Journal: MinJournal + 1},
	} {
		if _, err := tryBuild(t, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := tryBuild(t, Options{MaxSize: 1 << 20}, layer(t, imagetest.File("f", strings.Repeat("x", 1<<20)))); err == nil {
		t.Error("an image bigger than its limit")
	}
}

func TestRefusesUsedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	if _, err := NewWriter(f, Options{}); err == nil {
		t.Error("a file with content is accepted")
	}
}

// TestRefusesStrayContent has trees whose content isn't what was stored.
func TestRefusesStrayContent(t *testing.T) {
	t.Parallel()
	file := imagetest.File("f", strings.Repeat("x", 5*BlockSize))
	change := map[string]func(i *flatten.Inode){
		"never stored":   func(i *flatten.Inode) { i.Data = 1 << 40 },
		"no such map":    func(i *flatten.Inode) { i.Data = -7 },
		"forgotten":      func(i *flatten.Inode) { i.Data = 0 },
		"of other size":  func(i *flatten.Inode) { i.Size = 1 },
		"lost its names": nil,
	}
	for name, f := range change {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := os.Create(filepath.Join(t.TempDir(), "image"))
			must(t, err)
			defer func() { must(t, out.Close()) }()
			w, err := NewWriter(out, Options{})
			must(t, err)
			layers := []io.Reader{layer(t, file)}
			if f == nil {
				layers = append(layers, layer(t, imagetest.File("f", "y")))
			}
			tree := scan(t, w, layers...)
			must(t, tree.Inodes(func(_ flatten.ID, i *flatten.Inode) error {
				if f != nil {
					f(i)
				}
				return nil
			}))
			if _, err := w.Finish(tree); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestRefusesAttributes(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"user.":                            "no name",
		"system.posix_acl_access":          "an ACL",
		"other.x":                          "no such kind",
		"user." + strings.Repeat("n", 256): "too long",
		"user.v":                           strings.Repeat("v", maxValue+1),
	} {
		var seq iter.Seq2[string, []byte] = func(yield func(string, []byte) bool) { yield(name, []byte(value)) }
		if _, err := sortAttrs(seq); err == nil {
			t.Errorf("%.20s is accepted", name)
		}
	}
}

func TestFailedRead(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer func() { must(t, f.Close()) }()
	w, err := NewWriter(f, Options{})
	must(t, err)
	if _, err := w.Append(strings.NewReader("short"), 6); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Append(nil, maxFile+1); err == nil {
		t.Error("a file too big for extents")
	}
	must(t, os.Truncate(f.Name(), 10))
	if _, err := w.Append(FileRange(f, 0, 1<<20), 1<<20); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file range that ends early: %v", err)
	}
}
