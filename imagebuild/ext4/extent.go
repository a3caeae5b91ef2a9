package ext4

import "encoding/binary"

const (
	maxExtent     = 32768
	extentSize    = 12
	extentMagic   = 0xF30A
	rootExtents   = 4
	blockExtents  = (BlockSize - extentSize) / extentSize
	extentTailOff = extentSize + blockExtents*extentSize
)

var le = binary.LittleEndian

// extent maps n blocks of a file, from logical, to the image's from start.
type extent struct{ logical, start, n uint32 }

// blockMap is where content that isn't a single run lies.
type blockMap struct {
	extents []extent
	// root is what an inode holds of the extent tree, valid after plant.
	root [rootExtents*extentSize + extentSize]byte
	// nodes are the tree's own blocks.
	nodes uint32
}

func appendExtent(all []extent, e extent) []extent {
	if k := len(all) - 1; k >= 0 {
		last := &all[k]
		if last.logical+last.n == e.logical && last.start+last.n == e.start && last.n+e.n <= maxExtent {
			last.n += e.n
			return all
		}
	}
	return append(all, e)
}

func blocksOf(size int64) int64 { return (size + BlockSize - 1) >> blockBits }

// keep returns one number for a list of extents: 0 for none, the block where
// content of the given size begins if it is one run, else a negative one for an
// entry of maps.
func (w *Writer) keep(extents []extent, size int64) int64 {
	switch {
	case len(extents) == 0:
		return 0
	case len(extents) == 1 && extents[0].logical == 0 && int64(extents[0].n) == blocksOf(size):
		return int64(extents[0].start)
	}
	w.pieces += len(extents)
	w.maps = append(w.maps, &blockMap{extents: append([]extent(nil), extents...)})
	return ^int64(len(w.maps) - 1)
}

// extents undoes keep.
func (w *Writer) extents(data, size int64) []extent {
	switch {
	case data < 0:
		return w.maps[^data].extents
	case data == 0 || size == 0:
		return nil
	}
	return []extent{{0, uint32(data), uint32(blocksOf(size))}}
}

// plant writes the extent tree of content that needs one.
func (w *Writer) plant(data int64, seed csum) error {
	if data >= 0 {
		return nil
	}
	m := w.maps[^data]
	level := m.extents
	depth := 0
	for ; len(level) > rootExtents; depth++ {
		var upper []extent
		for len(level) > 0 {
			k := min(len(level), blockExtents)
			at, err := w.block(func(b []byte) {
				putExtents(b, level[:k], depth, blockExtents)
				le.PutUint32(b[extentTailOff:], uint32(seed.update(b[:extentTailOff])))
			})
			if err != nil {
				return err
			}
			upper = append(upper, extent{level[0].logical, uint32(at), 0})
			level = level[k:]
			m.nodes++
		}
		level = upper
	}
	putExtents(m.root[:], level, depth, rootExtents)
	return nil
}

// putExtents encodes a node: extents at depth 0, children above.
func putExtents(b []byte, list []extent, depth, most int) {
	le.PutUint16(b, extentMagic)
	le.PutUint16(b[2:], uint16(len(list)))
	le.PutUint16(b[4:], uint16(most))
	le.PutUint16(b[6:], uint16(depth))
	for _, e := range list {
		b = b[extentSize:]
		le.PutUint32(b, e.logical)
		if depth == 0 {
			le.PutUint16(b[4:], uint16(e.n))
			le.PutUint32(b[8:], e.start)
		} else {
			le.PutUint32(b[4:], e.start)
		}
	}
}

// mapping fills an inode's block field and returns how many blocks its content
// takes, extent tree included.
func (w *Writer) mapping(b []byte, data, size int64) int64 {
	if data >= 0 {
		list := w.extents(data, size)
		putExtents(b, list, 0, rootExtents)
		if len(list) == 0 {
			return 0
		}
		return int64(list[0].n)
	}
	m := w.maps[^data]
	copy(b, m.root[:])
	n := int64(m.nodes)
	for _, e := range m.extents {
		n += int64(e.n)
	}
	return n
}

// block writes one zeroed block that fill completes, and returns its number.
func (w *Writer) block(fill func(b []byte)) (int64, error) {
	b, err := w.out.window(BlockSize)
	if err != nil {
		return 0, err
	}
	clear(b)
	fill(b)
	var at int64
	err = w.out.commit(1, func(r run) { at = int64(r.start) })
	return at, err
}
