package ext4

const (
	rootIndexAt  = 32
	nodeIndexAt  = 8
	indexTailAt  = BlockSize - 8
	rootIndex    = (indexTailAt - rootIndexAt) / 8
	nodeIndex    = (indexTailAt - nodeIndexAt) / 8
	hashHalfMD4  = 1
	maxOldLevels = 2
)

// child of an index node: a block that begins with a hash.
type child struct{ hash, block uint32 }

// indexed writes a directory as a tree of hashes, the root first, then the
// nodes level by level, then the leaves.
func (d *dirWriter) indexed() error {
	leaves := d.split()
	widths := indexWidths(len(leaves))
	if len(widths) > maxOldLevels {
		d.f.largeDir = true
	}
	first := uint32(1) // of the level below
	for depth, n := range widths {
		below := len(leaves)
		if depth+1 < len(widths) {
			below = widths[depth+1]
		}
		for k := range n {
			from, to := share(below, n, k)
			list := make([]child, 0, to-from)
			for j := from; j < to; j++ {
				list = append(list, child{d.firstHash(leaves, widths[depth+1:], j), first + uint32(j)})
			}
			if err := d.node(depth, len(widths)-1, list); err != nil {
				return err
			}
		}
		first += uint32(below)
	}
	return d.leaves(leaves)
}

// indexWidths is how many nodes each level of the index has, the root first.
func indexWidths(leaves int) []int {
	widths := []int{1}
	for n := leaves; n > rootIndex; {
		n = (n + nodeIndex - 1) / nodeIndex
		widths = append([]int{1, n}, widths[1:]...)
	}
	return widths
}

// share is the part of n children that node k of nodes has.
func share(n, nodes, k int) (from, to int) { return n * k / nodes, n * (k + 1) / nodes }

// firstHash follows the first children of node j down to a leaf.
func (d *dirWriter) firstHash(leaves []int, widths []int, j int) uint32 {
	for depth, n := range widths {
		below := len(leaves)
		if depth+1 < len(widths) {
			below = widths[depth+1]
		}
		j, _ = share(below, n, j)
	}
	at := leaves[j]
	hash := d.entries[at].major
	if at > 0 && d.entries[at-1].major == hash {
		hash |= 1 // the hash continues from the leaf before
	}
	return hash
}

// split returns the index of each leaf's first entry.
func (d *dirWriter) split() []int {
	leaves := []int{0}
	used := 0
	for k, e := range d.entries {
		n := direntSize(d.name(e))
		if used+n > dirSpace {
			leaves = append(leaves, k)
			used = 0
		}
		used += n
	}
	return leaves
}

func (d *dirWriter) node(depth, levels int, list []child) error {
	return d.block(func(b []byte) {
		at, limit := nodeIndexAt, nodeIndex
		if depth == 0 {
			at, limit = rootIndexAt, rootIndex
			putDirent(b, d.own, 12, []byte("."), typeDir)
			putDirent(b[12:], d.parent, BlockSize-12, []byte(".."), typeDir)
			b[28], b[29], b[30] = hashHalfMD4, 8, byte(levels)
		} else {
			putDirent(b, 0, BlockSize, nil, 0)
		}
		for k, c := range list {
			le.PutUint32(b[at+8*k:], c.hash)
			le.PutUint32(b[at+8*k+4:], c.block)
		}
		// The first child needs no hash; limit and count have its place.
		le.PutUint16(b[at:], uint16(limit))
		le.PutUint16(b[at+2:], uint16(len(list)))
		sum := d.seed.update(b[:at+8*len(list)]).update(zeros[:8])
		le.PutUint32(b[indexTailAt+4:], uint32(sum))
	})
}

func (d *dirWriter) leaves(leaves []int) error {
	for k, from := range leaves {
		to := len(d.entries)
		if k+1 < len(leaves) {
			to = leaves[k+1]
		}
		if err := d.block(func(b []byte) { d.list(b, 0, d.entries[from:to]) }); err != nil {
			return err
		}
	}
	return nil
}
