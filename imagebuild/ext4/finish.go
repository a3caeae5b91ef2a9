package ext4

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

// Abandon waits until nothing is being written to the file any more, so that it can
// be closed. It is for a Writer that won't be finished, and harmless for others.
func (w *Writer) Abandon() { _ = w.out.wait() }

// Finish writes everything but the content of files, which the tree's Data name
// as Append returned it. The tree is finished and is taken apart. The error is
// an *EntryError for a file that ext4 can't hold, a *TooSmallError for an image
// that would get too big.
func (w *Writer) Finish(t *flatten.Tree) (*Info, error) {
	f := &finisher{Writer: w, tree: t}
	if err := f.number(); err != nil {
		return nil, err
	}
	if err := f.contents(); err != nil {
		return nil, err
	}
	g, err := f.choose()
	if err != nil {
		return nil, err
	}
	tables := newTables(g, &w.out)
	if err := f.inodes(tables); err != nil {
		return nil, err
	}
	descs, free, err := f.groups(&g, tables.dirs)
	if err != nil {
		return nil, err
	}
	if err := f.writeHeads(&g, descs, free); err != nil {
		return nil, err
	}
	size := max(g.total<<blockBits, w.opts.Size)
	inodes := g.groups * int64(g.groupInodes)
	info := &Info{w.id.uuid, size, free << blockBits, inodes, inodes - int64(f.last)}
	return info, w.out.f.Truncate(size)
}

// contents writes what isn't in files.
func (f *finisher) contents() error {
	if f.opts.ResizeInode {
		var err error
		if f.dind, err = f.block(func([]byte) {}); err != nil {
			return err
		}
	}
	if err := f.writeLost(); err != nil {
		return err
	}
	stored := f.stored
	if err := f.each(f.content); err != nil {
		return err
	}
	if f.claimed != stored {
		return fmt.Errorf("%d blocks of content were stored, files have %d", stored, f.claimed)
	}
	f.entries = nil
	if err := f.writeJournal(); err != nil {
		return err
	}
	return f.out.sync()
}

func (f *finisher) content(id flatten.ID, i *flatten.Inode) error {
	if err := f.writeAttrs(id, i.Num); err != nil {
		return err
	}
	switch i.Type() {
	case unix.S_IFDIR:
		return f.writeDir(id, i)
	case unix.S_IFREG:
		return f.claim(i)
	case unix.S_IFLNK:
		target := f.tree.Link(id)
		if len(target) <= maxFastLink {
			return nil
		}
		var err error
		i.Data, err = f.append(bytes.NewReader(target), int64(len(target)), false)
		return err
	}
	return nil
}

// claim counts a file's blocks and writes its extent tree.
func (f *finisher) claim(i *flatten.Inode) error {
	if i.Size == 0 {
		i.Data = 0
	}
	if ^i.Data >= int64(len(f.maps)) || i.Data > 0 && i.Data+blocksOf(i.Size) > f.out.next() {
		return errors.New("a file's content was never stored")
	}
	for _, e := range f.extents(i.Data, i.Size) {
		f.claimed += int64(e.n)
	}
	return f.plant(i.Data, f.id.seed.inode(i.Num))
}

// Prune frees the content of files that lost all their names, such as those an
// upper layer replaces, when layers were scanned into the writer. Call it before
// Finish.
func (w *Writer) Prune(t *flatten.Tree) error {
	return t.Inodes(func(_ flatten.ID, i *flatten.Inode) error {
		if i.Nlink > 0 || i.Data == 0 {
			return nil
		}
		err := w.Free(i.Data, i.Size)
		i.Data = 0
		return err
	})
}
