package ext4

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

const (
	lostBlocks = 4
	// dindSlot is where the block field has the double indirect block.
	dindSlot      = 13
	addrsPerBlock = BlockSize / 4
)

// ownInodes writes the inodes that no tree has.
func (f *finisher) ownInodes(t *tables) error {
	if f.opts.ResizeInode {
		if err := f.resizeInode(t); err != nil {
			return err
		}
	}
	if f.opts.Journal > 0 {
		var b [inodeSize]byte
		s := stat{mode: unix.S_IFREG | 0o600, links: 1, size: f.opts.Journal, flags: flagExtents}
		s.blocks = f.mapping(b[inodeBlock:], f.journal, s.size)
		putInode(b[:], &s)
		f.seal(b[:], journalInode)
		copy(f.journalCopy[:], b[inodeBlock:inodeBlock+inodeBlockSz])
		if err := t.put(journalInode, b[:]); err != nil {
			return err
		}
	}
	if !f.addLost {
		return nil
	}
	root := f.tree.Inode(flatten.RootID)
	var b [inodeSize]byte
	s := stat{mode: unix.S_IFDIR | 0o700, links: 2, size: lostBlocks * BlockSize, sec: root.Sec, nsec: root.Nsec, flags: flagExtents}
	s.blocks = f.mapping(b[inodeBlock:], f.lost, s.size)
	putInode(b[:], &s)
	f.seal(b[:], firstInode)
	t.dirs[0]++
	return t.put(firstInode, b[:])
}

// writeJournal makes an empty journal; all but its first block stay holes.
func (f *finisher) writeJournal() error {
	if f.opts.Journal == 0 {
		return nil
	}
	n := f.opts.Journal >> blockBits
	var list []extent
	var logical uint32
	err := f.out.skip(n, func(r run) {
		list = appendExtent(list, extent{logical, r.start, r.n})
		logical += r.n
	})
	if err != nil {
		return err
	}
	var b [BlockSize]byte
	be := binary.BigEndian
	be.PutUint32(b[0x00:], 0xC03B3998)
	be.PutUint32(b[0x04:], 4) // a superblock, version 2
	be.PutUint32(b[0x0C:], BlockSize)
	be.PutUint32(b[0x10:], uint32(n))
	be.PutUint32(b[0x14:], 1) // first block of the log
	be.PutUint32(b[0x18:], 1) // first transaction
	copy(b[0x30:], f.id.uuid[:])
	be.PutUint32(b[0x40:], 1) // users
	if err := f.out.writeAt(b[:], int64(list[0].start)); err != nil {
		return err
	}
	f.journal = f.keep(list, f.opts.Journal)
	return f.plant(f.journal, f.id.seed.inode(journalInode))
}

// resizeInode holds the blocks reserved for group descriptors, as indirect
// blocks that list their counterparts in the backups.
func (f *finisher) resizeInode(t *tables) error {
	reserved := t.reserved(f.heads)
	backups := t.backups()
	var dind, list [BlockSize]byte
	for k := range reserved {
		at := 1 + t.descBlocks + k
		le.PutUint32(dind[(t.descBlocks+k)%addrsPerBlock*4:], uint32(at))
		clear(list[:])
		for j, g := range backups {
			le.PutUint32(list[j*4:], uint32(g*groupBlocks+at))
		}
		if len(backups) == 0 {
			continue
		}
		if err := f.out.writeAt(list[:], at); err != nil {
			return err
		}
	}
	if err := f.out.writeAt(dind[:], f.dind); err != nil {
		return err
	}
	var b [inodeSize]byte
	s := stat{mode: unix.S_IFREG | 0o600, links: 1, blocks: 1 + reserved*int64(1+len(backups))}
	s.size = (addrsPerBlock*addrsPerBlock + addrsPerBlock + 12) * BlockSize
	putInode(b[:], &s)
	le.PutUint32(b[inodeBlock+dindSlot*4:], uint32(f.dind))
	f.seal(b[:], resizeInode)
	return t.put(resizeInode, b[:])
}
