// Package erofs writes EROFS images that Linux and gVisor mount: 4 KiB blocks,
// nothing compressed, every regular file in whole blocks of its own. gVisor maps
// file pages straight from the image, so it needs that; it also refuses inodes
// with extended attributes, so they are an option.
//
// An image is the superblock's block, file data in the order it came, then
// inodes, then directories and symbolic links too big to sit beside their
// inode. The same tree and data give the same bytes.
package erofs

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

// DataStart is where file data begins in an image.
const DataStart = BlockSize

// Options of an image.
type Options struct {
	// UUID of the file system.
	UUID [16]byte
	// Xattrs writes extended attributes. gVisor can't read such an inode.
	Xattrs bool
}

// Write completes an image whose file data is already in f up to dataEnd, and
// returns its size in bytes. The tree is finished, its files' Data are offsets
// in f; their Layer is ignored.
func Write(f *os.File, dataEnd int64, t *flatten.Tree, o Options) (int64, error) {
	l := newLayout(t, o.Xattrs)
	metaStart := dataEnd >> blockBits
	tailStart := metaStart + blocks(l.end)
	end := tailStart + l.tailBlocks
	if end >= 1<<32 {
		return 0, &flatten.TooBigError{Limit: "the size of an EROFS image"}
	}
	w := &writer{
		layout: l, tailStart: tailStart,
		inodes: stream(f, metaStart<<blockBits), tails: stream(f, tailStart<<blockBits),
	}
	if err := w.write(); err != nil {
		return 0, fmt.Errorf("write EROFS metadata: %w", err)
	}
	sb := super{
		rootNid: uint16(t.Inode(flatten.RootID).Num), inodes: uint64(len(l.order)),
		blocks: uint32(end), metaBlock: uint32(metaStart), uuid: o.UUID,
	}
	if _, err := f.WriteAt(sb.block(), 0); err != nil {
		return 0, err
	}
	return end << blockBits, f.Truncate(end << blockBits)
}

func blocks(size int64) int64 { return (size + BlockSize - 1) >> blockBits }

func stream(f *os.File, at int64) *bufio.Writer {
	return bufio.NewWriterSize(io.NewOffsetWriter(f, at), 256<<10)
}

// writer writes inodes and tails in the order of the layout.
type writer struct {
	*layout
	tailStart     int64
	inodes, tails *bufio.Writer
	// at is how far inodes has been written.
	at int64
	// number of inodes written.
	number uint32
	buf    []byte
}

func (w *writer) write() error {
	for _, id := range w.order {
		if err := w.inode(id); err != nil {
			return err
		}
	}
	if err := w.inodes.Flush(); err != nil {
		return err
	}
	return w.tails.Flush()
}

// inode writes one inode, its attributes and its inline data.
func (w *writer) inode(id flatten.ID) error {
	i := w.tree.Inode(id)
	start := int64(i.Num) << slotBits
	if err := pad(w.inodes, start-w.at); err != nil {
		return err
	}
	buf := append(w.buf[:0], make([]byte, inodeSize)...)
	if w.xattrs {
		buf = appendXattrs(buf, w.tree.Xattrs(id))
	}
	w.number++
	inline := inlineSize(i, start+int64(len(buf)))
	putInode(buf, i, w.number, w.block(i), inline > 0, len(buf)-inodeSize)
	w.buf = buf
	w.at = start + int64(len(buf)) + inline
	if _, err := w.inodes.Write(buf); err != nil {
		return err
	}
	return w.content(id, i, inline)
}

// block is where an inode's data begins.
func (w *writer) block(i *flatten.Inode) uint32 {
	switch {
	case i.IsDir() || i.Type() == unix.S_IFLNK:
		return uint32(w.tailStart + i.Data)
	case i.Type() == unix.S_IFREG && i.Size > 0:
		return uint32(i.Data >> blockBits)
	}
	return 0
}

// content writes what a directory or a symbolic link holds.
func (w *writer) content(id flatten.ID, i *flatten.Inode, inline int64) error {
	put := func(b []byte) error {
		if inline > 0 && len(b) < BlockSize {
			_, err := w.inodes.Write(b)
			return err
		}
		if _, err := w.tails.Write(b); err != nil {
			return err
		}
		return pad(w.tails, int64(-len(b)&(BlockSize-1)))
	}
	switch i.Type() {
	case unix.S_IFDIR:
		return dirBlocks(w.tree, id, put)
	case unix.S_IFLNK:
		return put(w.tree.Link(id))
	}
	return nil
}

func pad(w io.Writer, n int64) error {
	for n > 0 {
		k := min(n, BlockSize)
		if _, err := w.Write(zeros[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
