package ext4

// Features, by what a reader that doesn't know them may do.
const (
	compatJournal = 0x4
	compatAttrs   = 0x8
	compatResize  = 0x10
	compatIndex   = 0x20

	incompatTypes    = 0x2
	incompatExtents  = 0x40
	incompat64bit    = 0x80
	incompatFlex     = 0x200
	incompatBigAttrs = 0x400
	incompatLargeDir = 0x4000

	roSparseSuper = 0x1
	roLargeFile   = 0x2
	roHugeFile    = 0x8
	roDirLinks    = 0x20
	roExtraSize   = 0x40
	roChecksums   = 0x400
)

func (f *finisher) features() (compat, incompat, ro uint32) {
	compat = compatAttrs | compatIndex
	incompat = incompatTypes | incompatExtents | incompat64bit | incompatFlex
	ro = roSparseSuper | roLargeFile | roHugeFile | roDirLinks | roExtraSize | roChecksums
	if f.opts.Journal > 0 {
		compat |= compatJournal
	}
	if f.opts.ResizeInode {
		compat |= compatResize
	}
	if f.bigAttrs {
		incompat |= incompatBigAttrs
	}
	if f.largeDir {
		incompat |= incompatLargeDir
	}
	return compat, incompat, ro
}

// super encodes the superblock of the head in a group. Times in it are zero:
// an image has no history.
func (f *finisher) super(g *geometry, free, group int64) []byte {
	b := make([]byte, 1024)
	put32(b, 0x04, 0x150, g.total)
	put32(b, 0x0C, 0x158, free)
	le.PutUint16(b[0x36:], 0xFFFF) // no checks after so many mounts
	le.PutUint16(b[0x5A:], uint16(group))
	if f.opts.ResizeInode {
		le.PutUint16(b[0xCE:], uint16(g.reserved(f.heads)))
	}
	compat, incompat, ro := f.features()
	for _, v := range []struct{ at, v uint32 }{
		{0x00, uint32(g.groups) * g.groupInodes},
		{0x10, uint32(g.groups)*g.groupInodes - f.last},
		{0x18, blockBits - 10},
		{0x1C, blockBits - 10},
		{0x20, groupBlocks},
		{0x24, groupBlocks},
		{0x28, g.groupInodes},
		{0x38, 0xEF53 | 1<<16}, // magic, and clean
		{0x3C, 1},              // errors are reported, not fatal
		{0x4C, 1},              // revision with inode size and features
		{0x54, firstInode},
		{0x58, inodeSize},
		{0x5C, compat},
		{0x60, incompat},
		{0x64, ro},
		{0x100, 0xC}, // extended attributes and ACLs are on
		{0x15C, extraSize | extraSize<<16},
		{0x160, 2},        // names hash as unsigned bytes
		{0x174, 4 | 1<<8}, // 16 groups in one flex group; CRC-32C
	} {
		le.PutUint32(b[v.at:], le.Uint32(b[v.at:])|v.v)
	}
	copy(b[0x68:], f.id.uuid[:])
	copy(b[0x78:0x88], f.opts.Label)
	for i, w := range f.id.hashSeed {
		le.PutUint32(b[0xEC+4*i:], w)
	}
	b[0xFC] = hashHalfMD4
	le.PutUint16(b[0xFE:], descSize)
	if f.opts.Journal > 0 {
		f.putJournal(b)
	}
	le.PutUint32(b[0x3FC:], uint32(csum(^uint32(0)).update(b[:0x3FC])))
	return b
}

// putJournal names the journal and keeps a copy of where it is.
func (f *finisher) putJournal(b []byte) {
	b[0xFD] = 1
	le.PutUint32(b[0xE0:], journalInode)
	copy(b[0x10C:], f.journalCopy[:])
	put32(b, 0x10C+16*4, 0x10C+15*4, f.opts.Journal)
}

// heads writes superblock and descriptors with their backups.
func (f *finisher) writeHeads(g *geometry, descs []byte, free int64) error {
	for _, k := range append([]int64{0}, g.backups()...) {
		if err := f.out.writeAt(descs, k*groupBlocks+1); err != nil {
			return err
		}
		var b [BlockSize]byte
		at := 0
		if k == 0 {
			at = 1024 // room for a boot loader
		}
		copy(b[at:], f.super(g, free, k))
		if err := f.out.writeAt(b[:], k*groupBlocks); err != nil {
			return err
		}
	}
	return nil
}
