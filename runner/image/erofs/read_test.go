package erofs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// reader decodes an image independently of the writer, trusting nothing.
type reader struct {
	b    []byte
	meta uint64
}

// node is an inode as it is on disk.
type node struct {
	mode     uint16
	size     uint64
	uid, gid uint32
	sec      int64
	nsec     uint32
	nlink    uint32
	xattrs   string
	data     []byte
}

var le = binary.LittleEndian

func (r *reader) at(off, n uint64) ([]byte, error) {
	if off > uint64(len(r.b)) || n > uint64(len(r.b))-off {
		return nil, fmt.Errorf("%d bytes at %d lie outside the image of %d", n, off, len(r.b))
	}
	return r.b[off : off+n], nil
}

func open(b []byte) (*reader, uint64, error) {
	r := &reader{b: b}
	block, err := r.at(1024, 3072)
	if err != nil {
		return nil, 0, err
	}
	sum := le.Uint32(block[4:])
	clean := bytes.Clone(block)
	clear(clean[4:8])
	if got := ^crc32.Checksum(clean, crc32.MakeTable(crc32.Castagnoli)); got != sum {
		return nil, 0, fmt.Errorf("checksum %#x, want %#x", got, sum)
	}
	if le.Uint32(block) != 0xe0f5e1e2 || block[12] != 12 || le.Uint32(block[80:]) != 0 {
		return nil, 0, fmt.Errorf("bad superblock")
	}
	if want := uint64(le.Uint32(block[36:])) << 12; want != uint64(len(b)) {
		return nil, 0, fmt.Errorf("%d bytes, the superblock says %d", len(b), want)
	}
	r.meta = uint64(le.Uint32(block[40:])) << 12
	return r, uint64(le.Uint16(block[14:])), nil
}

func (r *reader) inode(nid uint64) (node, error) {
	off := r.meta + nid<<5
	b, err := r.at(off, 64)
	if err != nil {
		return node{}, err
	}
	n := node{
		mode: le.Uint16(b[4:]), size: le.Uint64(b[8:]), uid: le.Uint32(b[24:]), gid: le.Uint32(b[28:]),
		sec: int64(le.Uint64(b[32:])), nsec: le.Uint32(b[40:]), nlink: le.Uint32(b[44:]),
	}
	format := le.Uint16(b)
	if format&1 != 1 {
		return n, fmt.Errorf("inode %d is compact", nid)
	}
	end := off + 64
	if count := uint64(le.Uint16(b[2:])); count > 0 {
		size := 12 + 4*(count-1)
		x, err := r.at(end, size)
		if err != nil {
			return n, err
		}
		n.xattrs = string(x)
		end += size
	}
	return n, r.data(&n, format>>1, uint64(le.Uint32(b[16:]))<<12, end)
}

func (r *reader) data(n *node, layout uint16, at, inline uint64) (err error) {
	switch layout {
	case 0:
		if n.size > 0 {
			n.data, err = r.at(at, n.size)
		}
		return err
	case 2:
		tail := n.size % 4096
		if inline%4096+tail > 4096 || tail == 0 {
			return fmt.Errorf("inline data of %d bytes at %d crosses a block", tail, inline)
		}
		whole, err := r.at(at, n.size-tail)
		if n.size < 4096 {
			whole, err = nil, nil
		}
		if err != nil {
			return err
		}
		rest, err := r.at(inline, tail)
		n.data = append(bytes.Clone(whole), rest...)
		return err
	}
	return fmt.Errorf("layout %d", layout)
}

// list yields a directory's entries.
func (r *reader) list(n node, yield func(name string, nid uint64, typ byte) error) error {
	last := ""
	for len(n.data) > 0 {
		b := n.data[:min(4096, len(n.data))]
		n.data = n.data[len(b):]
		count := int(le.Uint16(b[8:])) / 12
		for i := range count {
			e := b[12*i:]
			from, to := int(le.Uint16(e[8:])), len(b)
			if i+1 < count {
				to = int(le.Uint16(b[12*(i+1)+8:]))
			}
			name := string(bytes.TrimRight(b[from:to], "\x00"))
			if name <= last {
				return fmt.Errorf("%q comes after %q", name, last)
			}
			last = name
			if err := yield(name, le.Uint64(e), e[10]); err != nil {
				return err
			}
		}
	}
	return nil
}
