package ext4

import "fmt"

// geometry is the size of an image and the place of its groups' metadata.
type geometry struct {
	// total, end and descBlocks are in blocks: the file system, what is in use
	// apart from heads behind it, and the descriptors.
	total, end int64
	descBlocks int64
	groups     int64
	// groupInodes are the inodes of each group.
	groupInodes uint32
	// Block numbers, one for each group.
	blockBitmaps, inodeBitmaps, inodeTables []int64
	// gaps before heads that no table fitted into.
	gaps []run
}

// lastSpare is what mke2fs and resize2fs demand of a last group beyond its
// metadata, in blocks.
const lastSpare = 50

// group is the one an inode is in.
func (g *geometry) group(num uint32) int64 { return int64((num - 1) / g.groupInodes) }

// backups are the groups other than 0 that have a head.
func (g *geometry) backups() []int64 {
	var list []int64
	for k := int64(1); k < g.groups; k++ {
		if hasHead(k) {
			list = append(list, k)
		}
	}
	return list
}

// reserved is how many blocks of a head aren't in use.
func (g *geometry) reserved(h heads) int64 { return h.head - 1 - g.descBlocks }

// place puts the metadata of so many groups and inodes behind block next. It
// returns false if the inodes need more groups.
func place(h heads, next, groups, inodes int64) (geometry, bool) {
	per := ceilDiv(max(ceilDiv(inodes, groups), h.minInodes), inodesPerBlock) * inodesPerBlock
	g := geometry{groups: groups, groupInodes: uint32(per), descBlocks: ceilDiv(groups, descsPerBlock)}
	if per > maxGroupInodes {
		return g, false
	}
	take := func(n int64) int64 {
		if room := h.room(next); room < n {
			g.gaps = append(g.gaps, run{uint32(next), uint32(room)})
			next = h.after(next + room)
		}
		at := next
		next = h.after(next + n)
		return at
	}
	several := func(n int64) []int64 {
		list := make([]int64, groups)
		for k := range list {
			list[k] = take(n)
		}
		return list
	}
	g.blockBitmaps, g.inodeBitmaps, g.inodeTables = several(1), several(1), several(per/inodesPerBlock)
	g.end = next
	return g, true
}

// tailHeads is how many blocks heads take behind what is in use.
func (g *geometry) tailHeads(h heads) int64 {
	var n int64
	for k := ceilDiv(g.end, groupBlocks); k < g.groups; k++ {
		if hasHead(k) {
			n += h.head
		}
	}
	return n
}

// least is the shortest last group, in blocks.
func (g *geometry) least(h heads) int64 {
	n := 2 + int64(g.groupInodes)/inodesPerBlock + lastSpare
	if hasHead(g.groups - 1) {
		n += h.head
	}
	return n
}

// fit chooses the smallest geometry with want free blocks.
func (f *finisher) fit(want, inodes int64) geometry {
	next := f.out.next()
	for groups := max(1, ceilDiv(next, groupBlocks)); ; groups++ {
		g, ok := place(f.heads, next, groups, inodes)
		if !ok {
			continue
		}
		g.total = g.end + g.tailHeads(f.heads) + want
		if groups > 1 {
			g.total = max(g.total, (groups-1)*groupBlocks+g.least(f.heads))
		}
		if g.total <= groups*groupBlocks {
			return g
		}
	}
}

// choose decides the size of the image.
func (f *finisher) choose() (geometry, error) {
	want := ceilDiv(f.opts.Free, BlockSize)
	if want > 0 { // Linux keeps this much for itself
		want += min(4096, (f.out.next()+want)/49+1)
	}
	extra := f.opts.FreeInodes
	if extra == 0 {
		extra = want / 4
	}
	if int64(f.last)+extra > maxInodes {
		return geometry{}, fmt.Errorf("%d inodes are in use and %d wanted free; ext4 has %d", f.last, extra, int64(maxInodes))
	}
	for _, r := range f.free {
		want -= int64(r.n)
	}
	g := f.fit(max(want, 0), int64(f.last)+extra)
	need := g.total << blockBits
	if f.opts.Size > 0 && need <= f.opts.Size {
		return f.fixed(g, max(want, 0), int64(f.last)+extra), nil
	}
	if need > f.out.limit<<blockBits {
		return g, &TooSmallError{Size: f.out.limit << blockBits, Need: need}
	}
	return g, nil
}

// fixed is the geometry of a given size, in which small fits. Without a wish it
// has one inode for each 16 KiB of what is free.
func (f *finisher) fixed(small geometry, want, inodes int64) geometry {
	total := f.opts.Size >> blockBits
	next := f.out.next()
	if f.opts.FreeInodes == 0 {
		spare := total - next - int64(f.last)/inodesPerBlock
		inodes = max(inodes, int64(f.last)+spare/4*64/65)
	}
	g, ok := place(f.heads, next, ceilDiv(total, groupBlocks), inodes)
	if rest := total % groupBlocks; g.groups > 1 && rest > 0 && rest < g.least(f.heads) {
		total -= rest
		g, ok = place(f.heads, next, g.groups-1, inodes)
	}
	if !ok || g.end+g.tailHeads(f.heads)+want > total {
		g, total = small, min(total, small.groups*groupBlocks)
	}
	g.total = total
	return g
}
