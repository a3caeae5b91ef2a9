package erofs

import (
	"encoding/binary"
	"hash/crc32"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
)

// On-disk constants, from the kernel's fs/erofs/erofs_fs.h.
const (
	// BlockSize of every image this package writes.
	BlockSize = 4096
	blockBits = 12

	superMagic  = 0xe0f5e1e2
	superOffset = 1024

	compatChecksum = 1
	compatMtime    = 2

	slotBits   = 5
	inodeSize  = 64
	direntSize = 12

	formatExtended = 1
	layoutPlain    = 0 << 1
	layoutInline   = 2 << 1
)

var fileTypes = map[uint16]byte{
	unix.S_IFREG: 1, unix.S_IFDIR: 2, unix.S_IFIFO: 5, unix.S_IFLNK: 7,
}

var le = binary.LittleEndian

// super is what the superblock says.
type super struct {
	rootNid   uint16
	inodes    uint64
	blocks    uint32
	metaBlock uint32
	uuid      [16]byte
}

// block encodes the first block of an image.
func (s *super) block() []byte {
	b := make([]byte, BlockSize)
	sb := b[superOffset:]
	le.PutUint32(sb[0:], superMagic)
	le.PutUint32(sb[8:], compatChecksum|compatMtime)
	sb[12] = blockBits
	le.PutUint16(sb[14:], s.rootNid)
	le.PutUint64(sb[16:], s.inodes)
	le.PutUint32(sb[36:], s.blocks)
	le.PutUint32(sb[40:], s.metaBlock)
	copy(sb[48:], s.uuid[:])
	sum := crc32.Checksum(sb, crc32.MakeTable(crc32.Castagnoli))
	le.PutUint32(sb[4:], ^sum)
	return b
}

// putInode encodes the extended form of an inode, which has 32-bit ids and
// times in nanoseconds.
func putInode(b []byte, i *flatten.Inode, ino, block uint32, inline bool, xattrs int) {
	layout := uint16(layoutPlain)
	if inline {
		layout = layoutInline
	}
	le.PutUint16(b[0:], formatExtended|layout)
	le.PutUint16(b[2:], xattrCount(xattrs))
	le.PutUint16(b[4:], i.Mode)
	le.PutUint64(b[8:], uint64(i.Size))
	le.PutUint32(b[16:], block)
	le.PutUint32(b[20:], ino)
	le.PutUint32(b[24:], i.UID)
	le.PutUint32(b[28:], i.GID)
	le.PutUint64(b[32:], uint64(i.Sec))
	le.PutUint32(b[40:], i.Nsec)
	le.PutUint32(b[44:], i.Nlink)
}
