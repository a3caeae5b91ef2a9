package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/image/stack"
)

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
	above  []*stack.Spool
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
	b.above = make([]*stack.Spool, len(b.img.Layers))
	defer b.closeSpools()
	layers := stack.Reader{Image: b.img, Budget: b.budget, Progress: b.read, Sink: b.sink}
	tree, err := layers.Read(ctx)
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

// sink is where a layer's contents go.
func (b *builder) sink(layer int) stack.Sink {
	if layer == 0 {
		return b.base
	}
	b.above[layer] = &stack.Spool{Budget: b.budget, Create: func() (*os.File, error) {
		path := filepath.Join(b.dir, fmt.Sprintf("layer-%d", layer))
		return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	}}
	return b.above[layer]
}

// settle drops what the bottom layer has for nothing and adds what is needed of
// the others.
func (b *builder) settle(t *flatten.Tree) error {
	var free hole
	err := t.Inodes(func(_ flatten.ID, i *flatten.Inode) error {
		if i.Size == 0 || i.Layer > 0 || i.Nlink > 0 {
			return nil
		}
		b.hash.forget(i.Data, i.Size)
		return free.add(b.base, i.Data, i.Size)
	})
	if err := errors.Join(err, free.punch(b.base)); err != nil {
		return err
	}
	for _, i := range stack.Above(t) {
		at, err := b.base.Append(b.above[i.Layer].Section(i.Data, i.Size), i.Size)
		if err != nil {
			return err
		}
		i.Data = at
	}
	return b.base.Release()
}

func (b *builder) closeSpools() {
	for _, s := range b.above {
		if s != nil && s.File != nil {
			_ = s.Close()
			_ = os.Remove(s.File.Name())
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
