package ext4

import (
	"bufio"
	"io"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

// Flags of an inode.
const (
	flagIndex   = 0x1000
	flagExtents = 0x80000
	flagEAInode = 0x200000
)

// Offsets in an inode that more than one function needs.
const (
	inodeBlock   = 0x28
	inodeBlockSz = 60
	maxFastLink  = inodeBlockSz - 1
)

// stat is what is common to all inodes.
type stat struct {
	mode     uint16
	uid, gid uint32
	links    uint16
	size     int64
	sec      int64
	nsec     uint32
	flags    uint32
	// blocks of content, its tree and attributes.
	blocks    int64
	attrBlock uint32
}

// putInode encodes all but the block field, attributes and checksum.
func putInode(b []byte, s *stat) {
	le.PutUint16(b, s.mode)
	le.PutUint16(b[0x02:], uint16(s.uid))
	le.PutUint32(b[0x04:], uint32(s.size))
	for _, at := range []int{0x08, 0x0C, 0x10, 0x90} { // access, change, modification, creation
		le.PutUint32(b[at:], uint32(s.sec))
	}
	le.PutUint16(b[0x18:], uint16(s.gid))
	le.PutUint16(b[0x1A:], s.links)
	sectors := uint64(s.blocks) * (BlockSize / 512)
	le.PutUint32(b[0x1C:], uint32(sectors))
	le.PutUint32(b[0x20:], s.flags)
	le.PutUint32(b[0x68:], s.attrBlock)
	le.PutUint32(b[0x6C:], uint32(s.size>>32))
	le.PutUint16(b[0x74:], uint16(sectors>>32))
	le.PutUint16(b[0x78:], uint16(s.uid>>16))
	le.PutUint16(b[0x7A:], uint16(s.gid>>16))
	le.PutUint16(b[0x80:], extraSize)
	for _, at := range []int{0x84, 0x88, 0x8C, 0x94} {
		le.PutUint32(b[at:], extraTime(s.sec, s.nsec))
	}
}

// extraTime is nanoseconds and what 32 signed bits lack of the seconds.
func extraTime(sec int64, nsec uint32) uint32 {
	epoch := (sec - int64(int32(sec))) >> 32
	return nsec<<2 | uint32(epoch)&3
}

// seal adds an inode's checksum.
func (w *Writer) seal(b []byte, num uint32) {
	sum := w.id.seed.inode(num).update(b)
	le.PutUint16(b[0x7C:], uint16(sum))
	le.PutUint16(b[0x82:], uint16(sum>>16))
}

// inodes writes all inodes to the tables.
func (f *finisher) inodes(t *tables) error {
	if err := f.ownInodes(t); err != nil {
		return err
	}
	var buf [inodeSize]byte
	err := f.each(func(id flatten.ID, i *flatten.Inode) error {
		b := buf[:]
		clear(b)
		a, err := sortAttrs(f.tree.Xattrs(id))
		if err != nil {
			return err
		}
		f.treeInode(b, id, i, &a)
		f.seal(b, i.Num)
		if i.IsDir() {
			t.dirs[t.group(i.Num)]++
		}
		if err := t.put(i.Num, b); err != nil {
			return err
		}
		return f.bigValues(t, i.Num, a.countBig())
	})
	if err != nil {
		return err
	}
	return t.flush()
}

func (f *finisher) treeInode(b []byte, id flatten.ID, i *flatten.Inode, a *attrs) {
	s := stat{mode: i.Mode, uid: i.UID, gid: i.GID, links: links(i), sec: i.Sec, nsec: i.Nsec}
	if id == flatten.RootID && f.addLost && s.links > 1 {
		s.links = dirLinks(i.Nlink + 1)
	}
	switch i.Type() {
	case unix.S_IFREG, unix.S_IFDIR:
		s.size, s.flags = i.Size, flagExtents
		if i.IsDir() && i.Size > BlockSize {
			s.flags |= flagIndex
		}
		s.blocks = f.mapping(b[inodeBlock:], i.Data, i.Size)
	case unix.S_IFLNK:
		target := f.tree.Link(id)
		s.size = int64(len(target))
		if len(target) <= maxFastLink {
			copy(b[inodeBlock:], target)
			break
		}
		s.flags = flagExtents
		s.blocks = f.mapping(b[inodeBlock:], i.Data, s.size)
	}
	if len(a.block) > 0 {
		s.attrBlock, f.attrBlocks = f.attrBlocks[0], f.attrBlocks[1:]
		s.blocks += 1 + a.bigBlocks()
	}
	putInode(b, &s)
	if len(a.body) > 0 {
		le.PutUint32(b[bodyStart:], attrMagic)
		f.putAttrs(b[bodyStart+4:], a.body, 0)
	}
}

func links(i *flatten.Inode) uint16 {
	if i.IsDir() {
		return dirLinks(i.Nlink)
	}
	return uint16(i.Nlink)
}

// dirLinks is 1, meaning many, for what the field can't count.
func dirLinks(n uint32) uint16 {
	if n > MaxLinks {
		return 1
	}
	return uint16(n)
}

// bigValues writes the inodes of n values that belong to owner.
func (f *finisher) bigValues(t *tables, owner uint32, n int) error {
	for k := range n {
		v := f.values[0]
		f.values = f.values[1:]
		var b [inodeSize]byte
		s := stat{mode: unix.S_IFREG | 0o600, links: 1, size: v.size, flags: flagExtents | flagEAInode}
		s.blocks = f.mapping(b[inodeBlock:], v.data, v.size)
		putInode(b[:], &s)
		// Such an inode has a hash for its access time and a count of users
		// for its version.
		le.PutUint32(b[0x08:], v.hash)
		le.PutUint32(b[0x24:], 1)
		num := f.valueInode(owner) + uint32(k)
		f.seal(b[:], num)
		if err := t.put(num, b[:]); err != nil {
			return err
		}
	}
	return nil
}

// tables writes inodes in order of their numbers.
type tables struct {
	geometry
	out *stream
	w   *bufio.Writer
	// next number that w is ready for, 0 at first.
	next uint32
	// dirs counts directories of each group.
	dirs []uint32
}

func newTables(g geometry, out *stream) *tables {
	return &tables{geometry: g, out: out, w: bufio.NewWriterSize(nil, 256<<10), dirs: make([]uint32, g.groups)}
}

func (t *tables) put(num uint32, b []byte) error {
	if num != t.next || (num-1)%t.groupInodes == 0 {
		if err := t.flush(); err != nil {
			return err
		}
		index := int64(num-1) % int64(t.groupInodes) * inodeSize
		t.w.Reset(io.NewOffsetWriter(t.out.f, t.inodeTables[t.group(num)]<<blockBits+index))
	}
	t.next = num + 1
	_, err := t.w.Write(b)
	return err
}

func (t *tables) flush() error {
	if t.next == 0 {
		return nil
	}
	return t.w.Flush()
}
