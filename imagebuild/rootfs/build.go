package rootfs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/image/stack"
)

// erofsFormat is part of what an EROFS image is made from: raise it when the same
// layers lead to other bytes. ext4 has its own.
const erofsFormat = "quavon erofs 1"

// builder fills one output. The bottom layer's contents go straight into it; those
// of the others wait beside it until it is known which of them are still there.
type builder struct {
	img    *source.Image
	opts   Options
	out    *output
	budget *flatten.Budget
	read   func(n int)
	fs     fileSystem
	above  []*stack.Spool
}

// fileSystem is one format on its way into a file.
type fileSystem interface {
	// Sink takes contents, those of the bottom layer first.
	stack.Sink
	// prune gives up content that the finished tree has lost.
	prune(t *flatten.Tree) error
	// finish writes the rest and fills in what it knows.
	finish(t *flatten.Tree, made *Made) error
	// settle returns when nothing is being written any more, finished or not.
	settle()
}

func (b *builder) build(ctx context.Context) (made *Made, err error) {
	if b.fs, err = b.newFileSystem(); err != nil {
		return nil, err
	}
	defer b.fs.settle()
	b.above = make([]*stack.Spool, len(b.img.Layers))
	defer func() { err = errors.Join(err, b.closeSpools()) }()
	layers := stack.Reader{Image: b.img, Budget: b.budget, Progress: b.read, Sink: b.sink}
	tree, err := layers.Read(ctx)
	if err != nil {
		return nil, err
	}
	made = &Made{
		Image: b.img.Config, Platform: b.img.ConfigFile.Platform().String(),
		Artefact: lock.Artefact{Kind: b.opts.Kind, Options: b.opts.Fields()},
		Report:   tree.Report, Entries: tree.Finish(),
	}
	if err := b.fs.prune(tree); err != nil {
		return nil, err
	}
	if err := b.copyAbove(ctx, tree); err != nil {
		return nil, err
	}
	return made, b.fs.finish(tree, made)
}

func (b *builder) newFileSystem() (fileSystem, error) {
	if b.opts.Kind == lock.KindEROFS {
		data := erofs.NewData(b.out.File, erofs.DataStart, b.budget)
		data.Eager = true
		return &erofsImage{data, b.out.File, b.identity()}, nil
	}
	w, err := ext4.NewWriter(b.out.File, ext4.Options{
		Identity: b.identity(), Free: b.opts.Free, Size: b.opts.Size, Journal: b.opts.Journal, ResizeInode: b.opts.Resize,
		Eager: true,
	})
	return &ext4Image{w}, err
}

// identity is what the file system's UUID is derived from.
func (b *builder) identity() string {
	return fmt.Sprintf("%s %s", b.img.Config, b.img.ConfigFile.Platform())
}

// sink is where a layer's contents go.
func (b *builder) sink(layer int) stack.Sink {
	if layer == 0 {
		return b.fs
	}
	b.above[layer] = &stack.Spool{Budget: b.budget, Create: b.out.spool}
	return b.above[layer]
}

// copyAbove adds what is needed of the layers above the bottom.
func (b *builder) copyAbove(ctx context.Context, t *flatten.Tree) error {
	for _, i := range stack.Above(t) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at, err := b.fs.Append(ext4.FileRange(b.above[i.Layer].File, i.Data, i.Size), i.Size)
		if err != nil {
			return err
		}
		i.Data = at
	}
	return b.fs.Release()
}

func (b *builder) closeSpools() error {
	var errs []error
	for _, s := range b.above {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// lost visits the files of the bottom layer that no name is left of.
func lost(t *flatten.Tree, visit func(i *flatten.Inode) error) error {
	return t.Inodes(func(_ flatten.ID, i *flatten.Inode) error {
		if i.Nlink > 0 || i.Layer > 0 || i.Size == 0 {
			return nil
		}
		return visit(i)
	})
}

type ext4Image struct{ w *ext4.Writer }

func (x *ext4Image) Append(r io.Reader, size int64) (int64, error) { return x.w.Append(r, size) }
func (x *ext4Image) Release() error                                { return nil }

func (x *ext4Image) prune(t *flatten.Tree) error {
	return lost(t, func(i *flatten.Inode) error { return x.w.Free(i.Data, i.Size) })
}

func (x *ext4Image) settle() { x.w.Abandon() }

func (x *ext4Image) finish(t *flatten.Tree, made *Made) error {
	info, err := x.w.Finish(t)
	if err != nil {
		return err
	}
	made.FreeBytes, made.FreeInodes = info.Free, info.FreeInodes
	return nil
}

type erofsImage struct {
	*erofs.Data
	f        *os.File
	identity string
}

func (x *erofsImage) prune(t *flatten.Tree) error {
	if err := x.Flush(); err != nil {
		return err
	}
	return lost(t, func(i *flatten.Inode) error { return x.Free(i.Data, i.Size) })
}

func (*erofsImage) settle() {} // it writes nothing behind one's back

func (x *erofsImage) finish(t *flatten.Tree, _ *Made) error {
	_, err := erofs.Write(x.f, x.Offset(), t, erofs.Options{UUID: x.uuid(), Xattrs: true})
	return err
}

// uuid is the same for the same image.
func (x *erofsImage) uuid() (id [16]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", erofsFormat, x.identity))
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: by a rule of our own
	return id
}
