package ext4

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

// Inodes that have a number of their own.
const (
	rootInode    = 2
	resizeInode  = 7
	journalInode = 8
	firstInode   = 11
)

const (
	maxName    = 255
	maxSymlink = BlockSize - 1
	lostFound  = "lost+found"
	// Times are 34 bits of seconds from 1901.
	minTime = -1 << 31
	maxTime = 1<<34 + minTime - 1
)

// finisher writes what depends on the tree.
type finisher struct {
	*Writer
	tree *flatten.Tree
	// first inode number of the tree but for its root, and the last.
	first, last uint32
	// addLost adds lost+found, which e2fsck wants, to a tree without one.
	addLost bool
	// Blocks and inodes of extended attributes, in order of their owners.
	attrBlocks []uint32
	values     []bigValue
	// Where content of their own inodes is, dind a block number.
	journal, lost, dind int64
	journalCopy         [inodeBlockSz]byte
	// claimed blocks are those of files.
	claimed            int64
	largeDir, bigAttrs bool
	// entries is writeDir's buffer.
	entries []dirent
}

// number gives each inode its number, so that a directory's files lie together,
// and refuses what ext4 can't hold.
func (f *finisher) number() error {
	lost, err := f.clearNumbers()
	if err != nil {
		return err
	}
	f.addLost = !lost
	f.last = firstInode - 1
	if f.addLost {
		f.last++
	}
	f.first = f.last + 1
	return f.each(func(id flatten.ID, i *flatten.Inode) error {
		if err := checkInode(f.tree, id, i); err != nil {
			return &EntryError{treePath(f.tree, id), err}
		}
		big, err := f.countBig(id)
		if err != nil {
			return &EntryError{treePath(f.tree, id), err}
		}
		if id == flatten.RootID {
			i.Num = rootInode
		} else {
			f.last++
			i.Num = f.last
		}
		if f.last > maxInodes {
			return errors.New("the image has more files than ext4 has inodes")
		}
		f.last += uint32(big)
		f.bigAttrs = f.bigAttrs || big > 0
		return nil
	})
}

// clearNumbers says whether the root has a lost+found.
func (f *finisher) clearNumbers() (lost bool, err error) {
	for id := range names(f.tree, flatten.RootID) {
		f.tree.Inode(id).Num = 0
		if len(f.tree.Name(id)) > maxName {
			return false, &EntryError{treePath(f.tree, id), fmt.Errorf("the name is longer than %d bytes", maxName)}
		}
		if f.tree.Parent(id) != flatten.RootID || string(f.tree.Name(id)) != lostFound {
			continue
		}
		if lost = f.tree.Inode(id).IsDir(); !lost {
			return false, &EntryError{lostFound, errors.New("in ext4 this name is a directory")}
		}
	}
	f.tree.Inode(flatten.RootID).Num = 0
	return lost, nil
}

// each visits every inode once, in the order of their numbers.
func (f *finisher) each(visit func(id flatten.ID, i *flatten.Inode) error) error {
	var seen uint32
	once := func(id flatten.ID) error {
		i := f.tree.Inode(id)
		if i.Num != 0 && i.Num <= seen {
			return nil
		}
		err := visit(id, i)
		seen = max(seen, i.Num)
		return err
	}
	if err := once(flatten.RootID); err != nil {
		return err
	}
	for id := range names(f.tree, flatten.RootID) {
		if err := once(id); err != nil {
			return err
		}
	}
	return nil
}

// names yields everything below dir: what it holds, then what its directories
// hold.
func names(t *flatten.Tree, dir flatten.ID) func(yield func(flatten.ID) bool) {
	return func(yield func(flatten.ID) bool) { yieldNames(t, dir, yield) }
}

func yieldNames(t *flatten.Tree, dir flatten.ID, yield func(flatten.ID) bool) bool {
	for id := t.First(dir); id != 0; id = t.Next(id) {
		if !yield(id) {
			return false
		}
	}
	for id := t.First(dir); id != 0; id = t.Next(id) {
		if t.Inode(id).IsDir() && !yieldNames(t, id, yield) {
			return false
		}
	}
	return true
}

func checkInode(t *flatten.Tree, id flatten.ID, i *flatten.Inode) error {
	switch i.Type() {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO, unix.S_IFSOCK:
	case unix.S_IFLNK:
		if n := len(t.Link(id)); n == 0 || n > maxSymlink {
			return fmt.Errorf("a symbolic link of %d bytes; ext4 holds 1 to %d", n, maxSymlink)
		}
	default:
		return fmt.Errorf("an image has no files of mode %o", i.Mode)
	}
	if i.Sec < minTime || i.Sec > maxTime || i.Nsec >= 1e9 {
		return fmt.Errorf("its time, %d.%09d, is not one of the years 1901 to 2446 that ext4 holds", i.Sec, i.Nsec)
	}
	if !i.IsDir() && i.Nlink > MaxLinks {
		return fmt.Errorf("it has %d names; ext4 allows %d", i.Nlink, MaxLinks)
	}
	return nil
}

func treePath(t *flatten.Tree, id flatten.ID) string {
	var parts []string
	for ; id != flatten.RootID && id != 0; id = t.Parent(id) {
		parts = append([]string{string(t.Name(id))}, parts...)
	}
	return "/" + strings.Join(parts, "/")
}
