package erofs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

// FuzzImage flattens two hostile layers. What is accepted must be an image that
// holds exactly the tree.
func FuzzImage(f *testing.F) {
	dir, file, link := imagetest.Dir, imagetest.File, imagetest.Link
	sym, long := imagetest.Symlink, strings.Repeat("long/", 60)
	xattrs := map[string]string{"user.a": "1", "security.capability": "2", "trusted.overlay.opaque": "y"}
	for _, seed := range [][2][]imagetest.Entry{
		{{file("t2", "1"), dir("d"), file("d/x", "2")}, {link("t1", "t2"), file("d/.wh..wh..opq", ""), file(".wh.t2", "")}},
		{{dir("./"), sym("x", "/etc"), file("y/z", "")}, {file("x/p", "1"), sym("y", strings.Repeat("l", 2000))}},
		{{{Name: "a", Xattrs: xattrs, UID: 1 << 31, Mode: 0o7777}}, {{Type: '6', Name: "a"}, {Type: '3', Name: "dev/c"}}},
		{{file(long+"f", "1")}, {file(long+".wh.f", ""), {Type: 'g', Name: "g", PAX: map[string]string{"comment": "x"}}}},
	} {
		f.Add(imagetest.Tar(f, seed[0]...), imagetest.Tar(f, seed[1]...))
	}
	path := filepath.Join(f.TempDir(), "image")
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a)+len(b) > 64<<10 {
			return
		}
		fixSums(a)
		fixSums(b)
		file, err := os.OpenFile(path+fmt.Sprint(os.Getpid()), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		budget := flatten.NewBudget(flatten.Limits{Entries: 10_000, Stream: 1 << 24, Logical: 1 << 24, Written: 1 << 24})
		data := erofs.NewData(file, erofs.DataStart, budget)
		tree := flatten.NewTree()
		for i, layer := range [][]byte{a, b} {
			upper, err := flatten.Scan(bytes.NewReader(layer), i, data, budget)
			if err == nil {
				err = tree.Merge(upper)
			}
			if err != nil {
				var entry *flatten.EntryError
				if errors.As(err, &entry) && len(entry.Error()) > 2000 {
					t.Errorf("an error of %d bytes", len(entry.Error()))
				}
				return
			}
		}
		names := tree.Finish()
		if err := data.Flush(); err != nil {
			t.Fatal(err)
		}
		size, err := erofs.Write(file, data.Offset(), tree, erofs.Options{Xattrs: true})
		if err != nil {
			t.Fatal(err)
		}
		img := make([]byte, size)
		if _, err := file.ReadAt(img, 0); err != nil {
			t.Fatal(err)
		}
		r, root, err := open(img)
		if err != nil {
			t.Fatal(err)
		}
		c := &comparer{tree, r, 0}
		if err := c.dir(flatten.RootID, root, root); err != nil {
			t.Fatal(err)
		}
		if c.names+1 != names {
			t.Fatalf("%d names in the image, %d in the tree", c.names+1, names)
		}
	})
}

// fixSums lets mutated headers pass the one check that would stop nearly all.
func fixSums(b []byte) {
	for ; len(b) >= 512; b = b[512:] {
		h := b[:512]
		if string(h[257:262]) != "ustar" {
			continue
		}
		copy(h[148:156], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
	}
}

// comparer walks a tree and an image together.
type comparer struct {
	tree  *flatten.Tree
	r     *reader
	names int64
}

func (c *comparer) dir(id flatten.ID, nid, parent uint64) error {
	n, err := c.inode(id, nid)
	if err != nil {
		return err
	}
	child := c.tree.First(id)
	return c.r.list(n, func(name string, at uint64, typ byte) error {
		switch {
		case name == "." && at == nid || name == ".." && at == parent:
			return nil
		case child == 0 || name != string(c.tree.Name(child)) || bytes.ContainsAny([]byte(name), "/\x00"):
			return fmt.Errorf("unexpected name %q", name)
		}
		c.names++
		this := child
		child = c.tree.Next(child)
		if c.tree.Inode(this).IsDir() {
			if typ != 2 {
				return fmt.Errorf("%q is a directory of type %d", name, typ)
			}
			return c.dir(this, at, nid)
		}
		n, err := c.inode(this, at)
		if err == nil && c.tree.Inode(this).Type() == 0o120000 && !bytes.Equal(n.data, c.tree.Link(this)) {
			err = fmt.Errorf("%q leads to %q", name, n.data)
		}
		return err
	})
}

// inode compares attributes.
func (c *comparer) inode(id flatten.ID, nid uint64) (node, error) {
	n, err := c.r.inode(nid)
	if err != nil {
		return n, err
	}
	i := c.tree.Inode(id)
	if n.mode != i.Mode || n.uid != i.UID || n.gid != i.GID || n.sec != i.Sec || n.nsec != i.Nsec || n.nlink != i.Nlink || n.size != uint64(i.Size) || n.nlink == 0 {
		return n, fmt.Errorf("inode %d is %+v, want %+v", nid, n, *i)
	}
	return n, nil
}
