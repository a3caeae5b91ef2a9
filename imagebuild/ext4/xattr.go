package ext4

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/image/flatten"
)

const (
	attrMagic      = 0xEA020000
	attrEntry      = 16
	attrHeader     = 32
	attrBlockSpace = BlockSize - attrHeader
	// bodySpace is what an inode has for attributes, behind a magic number.
	bodySpace = inodeSize - bodyStart - 4
	bodyStart = 128 + extraSize
	extraSize = 32
	// maxValue is Linux's own limit.
	maxValue = 64 << 10
)

// attr is an extended attribute, its name without the prefix that index means.
type attr struct {
	index byte
	name  string
	value []byte
	// big is a value in an inode of its own, numbered num.
	big bool
	num uint32
}

// bigValue is content of such an inode.
type bigValue struct {
	data int64
	size int64
	hash uint32
}

var attrPrefixes = []struct {
	prefix string
	index  byte
}{{"user.", 1}, {"trusted.", 4}, {"security.", 6}}

// attrs are an inode's attributes, sorted and put where they fit.
type attrs struct{ body, block []attr }

func (a *attr) size() int {
	n := attrEntry + pad4(len(a.name))
	if !a.big {
		n += pad4(len(a.value))
	}
	return n
}

func pad4(n int) int { return (n + 3) &^ 3 }

// sortAttrs decides what goes into the inode, its attribute block, and inodes
// for values of their own. All lists end in 4 zero bytes.
func sortAttrs(seq iter.Seq2[string, []byte]) (attrs, error) {
	var list []attr
	for name, value := range seq {
		a, err := newAttr(name, value)
		if err != nil {
			return attrs{}, err
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b attr) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	var out attrs
	room := bodySpace - 4
	for _, a := range list {
		if n := a.size(); n <= room {
			out.body = append(out.body, a)
			room -= n
		} else {
			out.block = append(out.block, a)
		}
	}
	return out, shrink(out.block)
}

func newAttr(name string, value []byte) (attr, error) {
	for _, p := range attrPrefixes {
		if rest, is := strings.CutPrefix(name, p.prefix); is && rest != "" {
			if len(rest) > maxName || len(value) > maxValue {
				return attr{}, fmt.Errorf("its extended attribute %.40q is too big", name)
			}
			return attr{index: p.index, name: rest, value: value}, nil
		}
	}
	return attr{}, fmt.Errorf("its extended attribute %.40q is of no kind that an image has", name)
}

// shrink moves the biggest values out of the block until the rest fits.
func shrink(block []attr) error {
	for {
		total := 4
		var biggest *attr
		for i := range block {
			a := &block[i]
			total += a.size()
			if !a.big && (biggest == nil || len(a.value) > len(biggest.value)) {
				biggest = a
			}
		}
		if total <= attrBlockSpace {
			return nil
		}
		if biggest == nil || len(biggest.value) == 0 {
			return errors.New("the names of its extended attributes need more than a block")
		}
		biggest.big = true
	}
}

// countBig is how many inodes an inode's attributes need.
func (f *finisher) countBig(id flatten.ID) (int, error) {
	a, err := sortAttrs(f.tree.Xattrs(id))
	return a.countBig(), err
}

func (a *attrs) countBig() int {
	n := 0
	for _, x := range a.block {
		if x.big {
			n++
		}
	}
	return n
}

// bigBlocks are the blocks of big values, which count for their owner too.
func (a *attrs) bigBlocks() int64 {
	var n int64
	for _, x := range a.block {
		if x.big {
			n += blocksOf(int64(len(x.value)))
		}
	}
	return n
}

// number gives the inodes of big values numbers from next.
func (a *attrs) number(next uint32) {
	for i := range a.block {
		if a.block[i].big {
			a.block[i].num = next
			next++
		}
	}
}

// valueInode is the number of an inode's first big value: behind its own, but
// the root's is reserved, so behind those.
func (f *finisher) valueInode(owner uint32) uint32 {
	if owner == rootInode {
		return f.first
	}
	return owner + 1
}

// writeAttrs writes an inode's attribute block and big values.
func (f *finisher) writeAttrs(id flatten.ID, owner uint32) error {
	a, err := sortAttrs(f.tree.Xattrs(id))
	if err != nil || len(a.block) == 0 {
		return err
	}
	a.number(f.valueInode(owner))
	for _, x := range a.block {
		if !x.big {
			continue
		}
		size := int64(len(x.value))
		data, err := f.append(bytes.NewReader(x.value), size, false)
		if err != nil {
			return err
		}
		if err := f.plant(data, f.id.seed.inode(x.num)); err != nil {
			return err
		}
		f.values = append(f.values, bigValue{data, size, uint32(f.id.seed.update(x.value))})
	}
	at, err := f.block(func(b []byte) { f.putAttrBlock(b, a.block, f.out.next()) })
	f.attrBlocks = append(f.attrBlocks, uint32(at))
	return err
}

// putAttrBlock encodes an attribute block that will be block number at.
func (f *finisher) putAttrBlock(b []byte, list []attr, at int64) {
	le.PutUint32(b, attrMagic)
	le.PutUint32(b[4:], 1) // users
	le.PutUint32(b[8:], 1) // blocks
	le.PutUint32(b[12:], f.putAttrs(b[attrHeader:], list, attrHeader))
	sum := f.id.seed.update(le.AppendUint64(nil, uint64(at))).update(b)
	le.PutUint32(b[16:], uint32(sum))
}

// putAttrs encodes a list, entries from the start of b and values from its end,
// and returns the hash of all. Offsets of values count from shift before b.
func (f *finisher) putAttrs(b []byte, list []attr, shift int) uint32 {
	var all uint32
	at, end := 0, len(b)
	for _, a := range list {
		hashed := a.value
		e := b[at:]
		e[0], e[1] = byte(len(a.name)), a.index
		le.PutUint32(e[8:], uint32(len(a.value)))
		switch {
		case a.big:
			le.PutUint32(e[4:], a.num)
			hashed = le.AppendUint32(nil, uint32(f.id.seed.update(a.value)))
		case len(a.value) > 0:
			end -= pad4(len(a.value))
			copy(b[end:], a.value)
			le.PutUint16(e[2:], uint16(end+shift))
		}
		hash := hashAttr(a.name, hashed)
		le.PutUint32(e[12:], hash)
		at += attrEntry + copy(e[attrEntry:attrEntry+pad4(len(a.name))], a.name)
		at = pad4(at)
		all = all<<16 ^ all>>16 ^ hash
	}
	return all
}

func hashAttr(name string, value []byte) uint32 {
	var h uint32
	for _, c := range []byte(name) {
		h = h<<5 ^ h>>27 ^ uint32(c)
	}
	for len(value) > 0 {
		var word [4]byte
		value = value[copy(word[:], value):]
		h = h<<16 ^ h>>16 ^ le.Uint32(word[:])
	}
	return h
}
