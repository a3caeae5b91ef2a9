package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/source"
)

// maxParallel bounds how many layers are read at once, and so an import's memory.
const maxParallel = 4

// builder makes one root. The bottom layer's contents go straight into the root
// file; those of the others wait in files of their own until it is known which
// of them are still there.
type builder struct {
	dir    string
	img    *source.Image
	run    *Run
	budget *flatten.Budget
	read   func(n int)
	root   *os.File
	hash   treeHash
	base   *erofs.Data
	above  []*spool
}

// built is a root that is complete but not yet named.
type built struct {
	tree    *flatten.Tree
	entries int64
	size    int64
}

func (b *builder) build(ctx context.Context) (*built, error) {
	b.base = erofs.NewData(b.root, erofs.DataStart, b.budget)
	b.base.Flushed, b.base.Eager = b.hash.chunk, true
	b.above = make([]*spool, len(b.img.Layers))
	defer b.closeSpools()
	tree, err := b.flatten(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.run.checkPaths(tree); err != nil {
		return nil, err
	}
	if err := tree.Ensure(append(b.run.workDir(tree), points...), b.base); err != nil {
		return nil, err
	}
	entries := tree.Finish()
	if err := b.settle(tree); err != nil {
		return nil, err
	}
	size, err := erofs.Write(b.root, b.base.Offset(), tree, erofs.Options{UUID: b.uuid()})
	return &built{tree, entries, size}, err
}

// flatten reads layers in parallel and merges them in order.
func (b *builder) flatten(ctx context.Context) (*flatten.Tree, error) {
	group, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, min(maxParallel, runtime.GOMAXPROCS(0)))
	trees := make([]chan *flatten.Tree, len(b.img.Layers))
	for i := range trees {
		trees[i] = make(chan *flatten.Tree, 1)
	}
	group.Go(func() error {
		for i := range trees {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			group.Go(func() error {
				defer func() { <-slots }()
				t, err := b.scan(ctx, i)
				trees[i] <- t
				return err
			})
		}
		return nil
	})
	tree := flatten.NewTree()
	group.Go(func() error {
		for _, c := range trees {
			select {
			case upper := <-c:
				if upper == nil {
					return nil // its reader has the error
				}
				if err := tree.Merge(upper); err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	return tree, group.Wait()
}

func (b *builder) scan(ctx context.Context, i int) (t *flatten.Tree, err error) {
	l := &b.img.Layers[i]
	r, err := l.Open(ctx, b.read)
	if err != nil {
		return nil, fmt.Errorf("layer %d: %w", i, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var data flatten.Data = b.base
	if i > 0 {
		b.above[i] = &spool{path: filepath.Join(b.dir, fmt.Sprintf("layer-%d", i)), budget: b.budget}
		data = b.above[i]
	}
	if t, err = flatten.Scan(r, i, data, b.budget); err != nil {
		return nil, err
	}
	if i > 0 {
		return t, b.above[i].release()
	}
	return t, b.base.Release()
}

// settle drops what the bottom layer has for nothing and adds what is needed of
// the others.
func (b *builder) settle(t *flatten.Tree) error {
	var (
		moved []*flatten.Inode
		free  hole
	)
	err := t.Inodes(func(_ flatten.ID, i *flatten.Inode) error {
		switch {
		case i.Size == 0:
		case i.Layer > 0 && i.Nlink > 0:
			moved = append(moved, i)
		case i.Layer == 0 && i.Nlink == 0:
			b.hash.forget(i.Data, i.Size)
			return free.add(b.base, i.Data, i.Size)
		}
		return nil
	})
	if err := errors.Join(err, free.punch(b.base)); err != nil {
		return err
	}
	slices.SortFunc(moved, func(x, y *flatten.Inode) int {
		if x.Layer != y.Layer {
			return int(x.Layer) - int(y.Layer)
		}
		return int((x.Data - y.Data) >> 12)
	})
	for _, i := range moved {
		at, err := b.base.Append(b.above[i.Layer].section(i.Data, i.Size), i.Size)
		if err != nil {
			return err
		}
		i.Data = at
	}
	return b.base.Release()
}

func (b *builder) closeSpools() {
	for _, s := range b.above {
		if s != nil {
			s.close()
		}
	}
}

// uuid is the same for the same root.
func (b *builder) uuid() (id [16]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "quavon root %d of %s\n", rootFormat, b.img.Config)
	copy(id[:], h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: by a rule of our own
	return id
}

// hole joins neighbouring pieces, so that a deleted directory is one call.
type hole struct{ off, size int64 }

func (h *hole) add(d *erofs.Data, off, size int64) error {
	size = (size + erofs.BlockSize - 1) &^ (erofs.BlockSize - 1)
	if h.off+h.size == off {
		h.size += size
		return nil
	}
	err := h.punch(d)
	h.off, h.size = off, size
	return err
}

func (h *hole) punch(d *erofs.Data) error {
	if h.size == 0 {
		return nil
	}
	return d.Free(h.off, h.size)
}

// spool holds the contents of a layer above the bottom.
type spool struct {
	path   string
	budget *flatten.Budget
	f      *os.File
	data   *erofs.Data
}

// Append implements flatten.Data.
func (s *spool) Append(r io.Reader, size int64) (int64, error) {
	if s.f == nil {
		f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return 0, err
		}
		s.f, s.data = f, erofs.NewData(f, 0, s.budget)
	}
	return s.data.Append(r, size)
}

func (s *spool) release() error {
	if s.f == nil {
		return nil
	}
	return s.data.Release()
}

// section reads stored content; past the file's end it is a hole.
func (s *spool) section(off, size int64) io.Reader {
	return io.MultiReader(io.NewSectionReader(s.f, off, size), zeros{})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (s *spool) close() {
	if s.f != nil {
		_ = s.f.Close()
	}
	_ = os.Remove(s.path)
}
