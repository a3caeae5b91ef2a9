package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// Sealer seals the parts of one stream, such as the chunks of a snapshot. Each
// part's index and whether it is the last are in its nonce: a part that was moved, left
// out or taken from elsewhere doesn't open.
type Sealer struct{ aead cipher.AEAD }

// Overhead is how much longer a sealed part is, in bytes.
const Overhead = tagSize

// Sealer makes keys for a stream of its own. The id must be new for every stream
// that is sealed: it keeps parts of two streams with one context apart.
func (k *Keyring) Sealer(c Context, id Nonce) *Sealer { return k.active().sealer(c, id) }

// Opener is the other side of Sealer. key names the root key.
func (k *Keyring) Opener(c Context, id Nonce, key KeyID) (*Sealer, error) {
	r, err := k.find(key)
	if err != nil {
		return nil, err
	}
	return r.sealer(c, id), nil
}

func (r *root) sealer(c Context, id Nonce) *Sealer {
	key := expand(extract(r.secret[:], id[:]), c.info("stream"), KeySize)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // 32 bytes are always a key
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has GCM's block size
	}
	return &Sealer{gcm}
}

// Seal appends the sealed part to dst.
func (s *Sealer) Seal(dst, part []byte, index uint64, last bool) []byte {
	n := position(index, last)
	return s.aead.Seal(dst, n[:], part, nil)
}

// Open appends the opened part to dst.
func (s *Sealer) Open(dst, sealed []byte, index uint64, last bool) ([]byte, error) {
	n := position(index, last)
	out, err := s.aead.Open(dst, n[:], sealed, nil)
	if err != nil {
		return nil, refuse(Tampered, "part %d does not open", index)
	}
	return out, nil
}

func position(index uint64, last bool) (n [12]byte) {
	binary.BigEndian.PutUint64(n[:8], index)
	if last {
		n[8] = 1
	}
	return n
}
