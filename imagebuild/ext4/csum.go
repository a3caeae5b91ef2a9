package ext4

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// csum is CRC-32C as Linux computes it, without inversion at either end.
type csum uint32

func (c csum) update(p []byte) csum {
	return csum(^crc32.Update(^uint32(c), castagnoli, p))
}

func (c csum) update32(v uint32) csum {
	return c.update(le.AppendUint32(nil, v))
}

// inode is the seed for checksums of an inode and its blocks.
func (c csum) inode(num uint32) csum { return c.update32(num).update32(0) }
