package ext4

import (
	"bytes"
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

const (
	direntHeader = 8
	// dirSpace is what entries can use of a block, the rest is its checksum.
	dirSpace  = BlockSize - dirTail
	dirTail   = 12
	typeDir   = 2
	typeTail  = 0xDE
	dotsSpace = 24
)

// dirent is one entry of a directory, in order of hash and name.
type dirent struct {
	major, minor uint32
	// id is 0 for an added lost+found.
	id flatten.ID
}

func direntSize(name []byte) int { return direntHeader + pad4(len(name)) }

// putDirent encodes an entry of size bytes.
func putDirent(b []byte, num uint32, size int, name []byte, typ byte) {
	le.PutUint32(b, num)
	le.PutUint16(b[4:], uint16(size))
	b[6], b[7] = byte(len(name)), typ
	copy(b[direntHeader:], name)
}

// direntType is the type a directory entry repeats.
func direntType(mode uint16) byte {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 1
	case unix.S_IFDIR:
		return typeDir
	case unix.S_IFIFO:
		return 5
	case unix.S_IFSOCK:
		return 6
	}
	return 7 // a symbolic link
}

// dirWriter writes one directory.
type dirWriter struct {
	f    *finisher
	seed csum
	// own and parent are inode numbers.
	own, parent uint32
	entries     []dirent
	extents     []extent
	logical     uint32
}

// writeDir writes a directory's blocks and notes in its inode where they are.
func (f *finisher) writeDir(id flatten.ID, i *flatten.Inode) error {
	d := dirWriter{f: f, own: i.Num, parent: i.Num, seed: f.id.seed.inode(i.Num), entries: f.entries[:0]}
	if p := f.tree.Parent(id); p != 0 {
		d.parent = f.tree.Inode(p).Num
	}
	total := d.collect(id)
	f.entries = d.entries
	var err error
	if total <= dirSpace {
		err = d.linear()
	} else {
		err = d.indexed()
	}
	if err != nil {
		return err
	}
	i.Size = int64(d.logical) << blockBits
	i.Data = f.keep(d.extents, i.Size)
	return f.plant(i.Data, d.seed)
}

// collect lists the entries and returns the bytes they need in one block.
func (d *dirWriter) collect(dir flatten.ID) int {
	t := d.f.tree
	total := dotsSpace
	add := func(id flatten.ID) {
		e := dirent{id: id}
		name := d.name(e)
		e.major, e.minor = hashName(name, d.f.id.hashSeed)
		d.entries = append(d.entries, e)
		total += direntSize(name)
	}
	for id := t.First(dir); id != 0; id = t.Next(id) {
		add(id)
	}
	if dir == flatten.RootID && d.f.addLost {
		add(0)
	}
	slices.SortFunc(d.entries, func(a, b dirent) int {
		if c := cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor)); c != 0 {
			return c
		}
		return bytes.Compare(d.name(a), d.name(b))
	})
	return total
}

var lostName = []byte(lostFound)

func (d *dirWriter) name(e dirent) []byte {
	if e.id == 0 {
		return lostName
	}
	return d.f.tree.Name(e.id)
}

// put encodes an entry; size 0 is what it needs.
func (d *dirWriter) put(b []byte, e dirent, size int) int {
	name := d.name(e)
	if size == 0 {
		size = direntSize(name)
	}
	num, typ := uint32(firstInode), byte(typeDir)
	if e.id != 0 {
		i := d.f.tree.Inode(e.id)
		num, typ = i.Num, direntType(i.Mode)
	}
	putDirent(b, num, size, name, typ)
	return size
}

// block writes the directory's next block.
func (d *dirWriter) block(fill func(b []byte)) error {
	at, err := d.f.block(fill)
	d.extents = appendExtent(d.extents, extent{d.logical, uint32(at), 1})
	d.logical++
	return err
}

// list fills a block with entries from offset at, the last one up to the tail.
func (d *dirWriter) list(b []byte, at int, entries []dirent) {
	for k, e := range entries {
		size := 0
		if k == len(entries)-1 {
			size = dirSpace - at
		}
		at += d.put(b[at:], e, size)
	}
	putDirTail(b, d.seed)
}

func putDirTail(b []byte, seed csum) {
	tail := b[dirSpace:]
	le.PutUint16(tail[4:], dirTail)
	tail[7] = typeTail
	le.PutUint32(tail[8:], uint32(seed.update(b[:dirSpace])))
}

// linear writes a directory of one block.
func (d *dirWriter) linear() error {
	return d.block(func(b []byte) {
		putDirent(b, d.own, 12, []byte("."), typeDir)
		rest := 12
		if len(d.entries) == 0 {
			rest = dirSpace - 12
		}
		putDirent(b[12:], d.parent, rest, []byte(".."), typeDir)
		d.list(b, dotsSpace, d.entries)
	})
}

// writeLost writes the added lost+found: space for e2fsck, no entries.
func (f *finisher) writeLost() error {
	if !f.addLost {
		return nil
	}
	d := dirWriter{f: f, own: firstInode, parent: rootInode, seed: f.id.seed.inode(firstInode)}
	if err := d.linear(); err != nil {
		return err
	}
	for range lostBlocks - 1 {
		err := d.block(func(b []byte) {
			putDirent(b, 0, dirSpace, nil, 0)
			putDirTail(b, d.seed)
		})
		if err != nil {
			return err
		}
	}
	f.lost = f.keep(d.extents, lostBlocks*BlockSize)
	return nil
}
