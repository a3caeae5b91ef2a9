package erofs

import (
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

// maxInline is the most that is stored beside an inode. Longer tails would
// waste more between inodes than they save.
const maxInline = 1024

// layout gives each inode its place: Num is its number on disk, and a
// directory's or symbolic link's Data its first block among the tails.
type layout struct {
	tree   *flatten.Tree
	xattrs bool
	// order of the inodes on disk.
	order []flatten.ID
	// end of the inodes, in bytes from the first.
	end        int64
	tailBlocks int64
	buf        []byte
}

func newLayout(t *flatten.Tree, xattrs bool) *layout {
	// Number 0 is no inode to programs that read directories.
	l := &layout{tree: t, xattrs: xattrs, end: inodeSize}
	l.place(flatten.RootID)
	l.placeDir(flatten.RootID)
	return l
}

// placeDir places what a directory holds, then what its directories hold, so
// that what is read together lies together.
func (l *layout) placeDir(dir flatten.ID) {
	for id := l.tree.First(dir); id != 0; id = l.tree.Next(id) {
		if l.tree.Inode(id).Num == 0 {
			l.place(l.tree.InodeID(id))
		}
	}
	for id := l.tree.First(dir); id != 0; id = l.tree.Next(id) {
		if l.tree.Inode(id).IsDir() {
			l.placeDir(id)
		}
	}
}

func (l *layout) place(id flatten.ID) {
	i := l.tree.Inode(id)
	if i.IsDir() {
		i.Size = dirSize(l.tree, id)
	}
	size := int64(inodeSize)
	if l.xattrs {
		l.buf = appendXattrs(l.buf[:0], l.tree.Xattrs(id))
		size += int64(len(l.buf))
	}
	start := (l.end + inodeSize - 1) &^ (inodeSize - 1)
	if inlineSize(i, start+size) == 0 && inlineSize(i, size) > 0 {
		start = (l.end + BlockSize - 1) &^ (BlockSize - 1)
	}
	inline := inlineSize(i, start+size)
	if i.IsDir() || i.Type() == unix.S_IFLNK {
		i.Data = l.tailBlocks
		l.tailBlocks += blocks(i.Size - inline)
	}
	i.Num = uint32(start >> slotBits)
	l.end = start + size + inline
	l.order = append(l.order, id)
}

// inlineSize is how many bytes of an inode's data are stored right behind it,
// given the offset where they would begin: they must not cross a block.
func inlineSize(i *flatten.Inode, off int64) int64 {
	if !i.IsDir() && i.Type() != unix.S_IFLNK {
		return 0
	}
	tail := i.Size & (BlockSize - 1)
	if tail > maxInline || off&(BlockSize-1)+tail > BlockSize {
		return 0
	}
	return tail
}
