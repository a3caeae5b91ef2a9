package flatten

import (
	"bytes"
	"hash/maphash"
	"slices"

	"golang.org/x/sys/unix"
)

// ID names a record of a Tree. 0 is none.
type ID uint32

// RootID is the root directory of every tree.
const RootID ID = 1

// Inode is what a file system keeps of a file, apart from its names.
type Inode struct {
	// Mode has Unix type and permission bits; 0 is a whiteout.
	Mode uint16
	// Layer is where Data is, counted from the bottom.
	Layer uint16
	UID   uint32
	GID   uint32
	// Nlink is valid after Tree.Finish.
	Nlink uint32
	// Num is free for a writer's use after Tree.Finish.
	Num uint32
	// Nsec belongs to Sec: time of modification since 1970.
	Nsec uint32
	Sec  int64
	// Size is in bytes.
	Size int64
	// Data is where a regular file's content begins in its layer's Data; for
	// other types it is free for a writer's use.
	Data   int64
	link   ref
	xattrs ref
}

// Type returns the type bits of the mode.
func (i *Inode) Type() uint16 { return i.Mode & unix.S_IFMT }

// IsDir says whether the inode is a directory.
func (i *Inode) IsDir() bool { return i.Type() == unix.S_IFDIR }

// hides says whether the record only hides what lower layers have at its name:
// whiteouts, and device nodes, which are never made.
func (i *Inode) hides() bool {
	return i.Mode == 0 || i.Type() == unix.S_IFCHR || i.Type() == unix.S_IFBLK
}

const (
	// flagOpaque hides what lower layers have in the directory.
	flagOpaque = 1 << iota
	// flagImplied is a directory that no entry describes.
	flagImplied
	// flagPending is a hard link whose target, in link, isn't known yet.
	flagPending
	// flagDead has lost its name.
	flagDead
)

// record is a name and, when inode is its own ID, an inode.
type record struct {
	Inode
	name   ref
	parent ID
	child  ID
	next   ID
	chain  ID
	inode  ID
	flags  uint8
}

const slabSize = 1024

// Tree is a directory tree in pointer-free records of about 100 bytes.
type Tree struct {
	slabs   [][]record
	count   int
	names   arena
	idx     index
	pending []ID
	layer   int
	// Report is about the layers the tree was read from.
	Report Report
}

// NewTree is a tree with only a root directory, root's, 0755.
func NewTree() *Tree {
	t := &Tree{idx: index{seed: maphash.MakeSeed()}}
	t.alloc() // 0 is none
	root := t.at(t.alloc())
	root.Mode = unix.S_IFDIR | 0o755
	root.flags = flagImplied
	return t
}

func (t *Tree) at(id ID) *record { return &t.slabs[id/slabSize][id%slabSize] }

func (t *Tree) alloc() ID {
	if t.count == len(t.slabs)*slabSize {
		t.slabs = append(t.slabs, make([]record, slabSize))
	}
	id := ID(t.count)
	t.count++
	t.at(id).inode = id
	return id
}

// attach gives a record its name.
func (t *Tree) attach(dir ID, name []byte, id ID) {
	n, d := t.at(id), t.at(dir)
	n.name, n.parent = t.names.add(string(name)), dir
	n.next, d.child = d.child, id
	t.enter(id)
}

// detach takes a record's name away. It stays in its parent's list of children
// until the next sweep, and as an inode for its other names.
func (t *Tree) detach(id ID) {
	t.leave(id)
	t.at(id).flags |= flagDead
}

// inodeOf follows hard links.
func (t *Tree) inodeOf(id ID) ID {
	for t.at(id).inode != id {
		id = t.at(id).inode
	}
	return id
}

// Inode returns the inode a name stands for.
func (t *Tree) Inode(id ID) *Inode { return &t.at(t.inodeOf(id)).Inode }

// InodeID names a name's inode; it is the same for all its hard links.
func (t *Tree) InodeID(id ID) ID { return t.inodeOf(id) }

// Name returns a record's name in its directory.
func (t *Tree) Name(id ID) []byte { return t.names.get(t.at(id).name) }

// Parent returns the directory a name is in, 0 for the root.
func (t *Tree) Parent(id ID) ID { return t.at(id).parent }

// First and Next list a directory in order of names, after Finish.
func (t *Tree) First(dir ID) ID { return t.at(dir).child }

// Next returns the name after id in its directory, 0 at the end.
func (t *Tree) Next(id ID) ID { return t.at(id).next }

// Link returns a symbolic link's target.
func (t *Tree) Link(id ID) []byte { return t.names.get(t.Inode(id).link) }

// Inodes calls f for each regular file's inode that ever had data, also those
// that lost their last name (Nlink 0), in the order they were read.
func (t *Tree) Inodes(f func(id ID, i *Inode) error) error {
	for id := RootID; int(id) < t.count; id++ {
		n := t.at(id)
		if n.inode != id || n.Type() != unix.S_IFREG || n.flags&flagPending != 0 {
			continue
		}
		if err := f(id, &n.Inode); err != nil {
			return err
		}
	}
	return nil
}

// Finish sorts directories and counts links. It returns the number of names.
func (t *Tree) Finish() int64 {
	for id := RootID; int(id) < t.count; id++ {
		t.at(id).Nlink, t.at(id).Num = 0, 0
	}
	t.at(RootID).Nlink = 2
	return t.finishDir(RootID, nil) + 1
}

func (t *Tree) finishDir(dir ID, buf []ID) int64 {
	kids := t.sweep(dir, buf[:0])
	slices.SortFunc(kids, func(a, b ID) int { return bytes.Compare(t.Name(a), t.Name(b)) })
	t.relink(dir, kids)
	names := int64(len(kids))
	for id := t.First(dir); id != 0; id = t.Next(id) {
		t.Inode(id).Nlink++
		if t.Inode(id).IsDir() {
			t.at(id).Nlink++
			t.at(dir).Nlink++
			names += t.finishDir(id, kids)
		}
	}
	return names
}

// sweep lists the living children of a directory.
func (t *Tree) sweep(dir ID, into []ID) []ID {
	for id := t.First(dir); id != 0; id = t.Next(id) {
		if t.at(id).flags&flagDead == 0 {
			into = append(into, id)
		}
	}
	return into
}

func (t *Tree) relink(dir ID, kids []ID) {
	t.at(dir).child = 0
	for _, id := range slices.Backward(kids) {
		t.at(id).next, t.at(dir).child = t.at(dir).child, id
	}
}
