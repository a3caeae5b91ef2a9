package ext4

import (
	"cmp"
	"slices"
)

// Flags of a group.
const (
	groupNoInodes = 1 // its inode bitmap was never written
	groupNoBlocks = 2 // its block bitmap was never written
	groupZeroed   = 4 // unused inodes are zeros
)

// groups writes bitmaps and returns the descriptors and the free blocks.
func (f *finisher) groups(g *geometry, dirs []uint32) (descs []byte, free int64, err error) {
	holes := append(slices.Clone(f.free), g.gaps...)
	slices.SortFunc(holes, func(a, b run) int { return cmp.Compare(a.start, b.start) })
	descs = make([]byte, g.descBlocks<<blockBits)
	for k := range g.groups {
		d := descs[k*descSize:][:descSize]
		put32(d, 0x00, 0x20, g.blockBitmaps[k])
		put32(d, 0x04, 0x24, g.inodeBitmaps[k])
		put32(d, 0x08, 0x28, g.inodeTables[k])
		put16(d, 0x10, 0x30, dirs[k])
		n, err := f.groupBlocks(g, k, d, &holes)
		if err != nil {
			return nil, 0, err
		}
		free += n
		if err := f.groupInodes(g, k, d); err != nil {
			return nil, 0, err
		}
		le.PutUint16(d[0x12:], le.Uint16(d[0x12:])|groupZeroed)
		le.PutUint16(d[0x1E:], uint16(f.id.seed.update32(uint32(k)).update(d)))
	}
	return descs, free, nil
}

// put32 and put16 split a number into a field's two halves.
func put32(b []byte, lo, hi int, v int64) {
	le.PutUint32(b[lo:], uint32(v))
	le.PutUint32(b[hi:], uint32(v>>32))
}

func put16(b []byte, lo, hi int, v uint32) {
	le.PutUint16(b[lo:], uint16(v))
	le.PutUint16(b[hi:], uint16(v>>16))
}

// groupBlocks writes group k's block bitmap and returns its free blocks. It
// takes what lies before the group's end from holes.
func (f *finisher) groupBlocks(g *geometry, k int64, d []byte, holes *[]run) (int64, error) {
	start := k * groupBlocks
	size := min(groupBlocks, g.total-start)
	var m bitmap
	m.set(0, min(max(g.end-start, 0), groupBlocks))
	if hasHead(k) {
		m.set(0, f.head)
		if !f.opts.ResizeInode {
			m.clear(1+g.descBlocks, f.head)
		}
	}
	for ; len(*holes) > 0; *holes = (*holes)[1:] {
		r := &(*holes)[0]
		from := int64(r.start) - start
		if from >= groupBlocks {
			break
		}
		to := min(from+int64(r.n), groupBlocks)
		m.clear(from, to)
		if done := uint32(to - from); done < r.n {
			r.start, r.n = r.start+done, r.n-done
			break
		}
	}
	free := m.zeros(size)
	put16(d, 0x0C, 0x2C, uint32(free))
	if start >= g.end && k < g.groups-1 {
		le.PutUint16(d[0x12:], groupNoBlocks)
		return free, nil
	}
	m.set(size, groupBlocks)
	put16(d, 0x18, 0x38, uint32(f.id.seed.update(m[:])))
	return free, f.out.writeAt(m[:], g.blockBitmaps[k])
}

// groupInodes writes group k's inode bitmap.
func (f *finisher) groupInodes(g *geometry, k int64, d []byte) error {
	per := int64(g.groupInodes)
	used := min(max(int64(f.last)-k*per, 0), per)
	free := uint32(per - used)
	put16(d, 0x0E, 0x2E, free)
	put16(d, 0x1C, 0x32, free)
	if used == 0 {
		le.PutUint16(d[0x12:], le.Uint16(d[0x12:])|groupNoInodes)
		return nil
	}
	var m bitmap
	m.set(0, used)
	m.set(per, groupBlocks)
	put16(d, 0x1A, 0x3A, uint32(f.id.seed.update(m[:per/8])))
	return f.out.writeAt(m[:], g.inodeBitmaps[k])
}

// bitmap has a bit for each block or inode of a group; 1 is in use.
type bitmap [BlockSize]byte

func (m *bitmap) set(from, to int64) {
	for ; from < to && from%8 != 0; from++ {
		m[from/8] |= 1 << (from % 8)
	}
	for ; from+8 <= to; from += 8 {
		m[from/8] = 0xff
	}
	for ; from < to; from++ {
		m[from/8] |= 1 << (from % 8)
	}
}

func (m *bitmap) clear(from, to int64) {
	for ; from < to; from++ {
		m[from/8] &^= 1 << (from % 8)
	}
}

// zeros counts the zeros among the first n bits.
func (m *bitmap) zeros(n int64) int64 {
	var free int64
	for i := range n {
		if m[i/8]&(1<<(i%8)) == 0 {
			free++
		}
	}
	return free
}
