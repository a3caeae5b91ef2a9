package ext4

import (
	"crypto/sha256"
	"fmt"
)

// Format is part of every UUID: it changes when the same input gives other bytes.
const Format = "quavon ext4 1"

// identity is what an image has instead of randomness.
type identity struct {
	uuid     [16]byte
	hashSeed [4]uint32
	// seed of all metadata checksums.
	seed csum
}

func newIdentity(o *Options) identity {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %d %d %d %d %t %d", Format,
		o.Identity, o.Label, o.Free, o.FreeInodes, o.Size, o.MaxSize, o.ResizeInode, o.Journal))
	var id identity
	copy(id.uuid[:], sum[:16])
	id.uuid[6] = id.uuid[6]&0x0f | 0x80 // version 8: made from other data
	id.uuid[8] = id.uuid[8]&0x3f | 0x80
	for i := range id.hashSeed {
		id.hashSeed[i] = le.Uint32(sum[16+4*i:])
	}
	id.seed = csum(^uint32(0)).update(id.uuid[:])
	return id
}
