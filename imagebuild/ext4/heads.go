package ext4

const (
	blockBits      = 12
	groupBlocks    = 8 * BlockSize
	descSize       = 64
	descsPerBlock  = BlockSize / descSize
	inodeSize      = 256
	inodesPerBlock = BlockSize / inodeSize
	maxGroupInodes = 8 * BlockSize
	// maxInodes leaves room to round up in each group.
	maxInodes = 1<<32 - 1<<22
)

// growthInodes is one inode for each 64 KiB of a group: growing adds groups, and
// every group has as many inodes as the first.
const growthInodes = 2048

// heads are the first blocks of some groups: superblock and descriptors, and
// their backups. Their size is fixed before the size of the image is known.
type heads struct {
	// head is in blocks.
	head int64
	// minInodes of each group.
	minInodes int64
}

func newHeads(o *Options) heads {
	groups := ceilDiv(o.MaxSize>>blockBits, groupBlocks)
	h := heads{head: 1 + ceilDiv(groups, descsPerBlock)}
	if o.ResizeInode {
		h.head++ // there is always something to reserve
		h.minInodes = growthInodes
	}
	return h
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// hasHead says whether a group holds superblock and descriptors: 0, 1 and the
// powers of 3, 5 and 7.
func hasHead(group int64) bool {
	if group <= 1 {
		return true
	}
	for _, p := range []int64{3, 5, 7} {
		n := p
		for n < group {
			n *= p
		}
		if n == group {
			return true
		}
	}
	return false
}

// after returns block, or the first one behind the head that it lies at.
func (h heads) after(block int64) int64 {
	if block%groupBlocks == 0 && hasHead(block/groupBlocks) {
		return block + h.head
	}
	return block
}

// room is how many blocks there are before the next head, 0 at a head.
func (h heads) room(block int64) int64 {
	g := ceilDiv(block, groupBlocks)
	for !hasHead(g) {
		g++
	}
	return g*groupBlocks - block
}
