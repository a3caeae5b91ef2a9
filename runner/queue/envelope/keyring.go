package envelope

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/quavon/quavon/runner/fault"
)

// KeySize is the size of a root key, in bytes.
const KeySize = 32

// MaxKeys bounds a keyring.
const MaxKeys = 16

// KeyID names a root key. It is derived from the key, so nobody has to choose it.
type KeyID [8]byte

// String is the id in hexadecimal.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// root is one root key. It signs and seals nothing itself: all keys are derived.
type root struct {
	id     KeyID
	secret [KeySize]byte
}

// Keyring holds the root keys that are accepted. The first seals. To rotate, add
// the new key as the second everywhere, then make it the first everywhere, then
// remove the old one after the last job sealed with it has ended.
type Keyring struct{ roots []root }

// String never shows a key.
func (k *Keyring) String() string {
	return fmt.Sprintf("%d keys, %s seals", len(k.roots), k.active().id)
}

// GoString never shows a key.
func (k *Keyring) GoString() string { return k.String() }

// ParseKeyring reads a key file: a key per line, base64 of 32 bytes, the first one
// seals. Empty lines and lines beginning with # are skipped. Errors name the line,
// never what is in it.
func ParseKeyring(text []byte) (*Keyring, error) {
	k := &Keyring{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		secret, err := decodeKey(line)
		if err != nil {
			return nil, fault.Wrap(err, fmt.Sprintf("read signing key, line %d", n), keyHint)
		}
		if err := k.add(secret); err != nil {
			return nil, fault.Wrap(err, fmt.Sprintf("read signing key, line %d", n), keyHint)
		}
	}
	if len(k.roots) == 0 {
		return nil, fault.New("read signing key: there is none", keyHint)
	}
	return k, nil
}

const keyHint = "write 32 random bytes in base64, such as `openssl rand -base64 32` prints"

func decodeKey(line []byte) ([]byte, error) {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		secret, err := enc.Strict().DecodeString(string(line))
		if err == nil && len(secret) == KeySize {
			return secret, nil
		}
	}
	return nil, fmt.Errorf("it is not base64 of %d bytes", KeySize)
}

// NewKeyring holds root keys of KeySize bytes, the first of which seals.
func NewKeyring(secrets ...[]byte) (*Keyring, error) {
	k := &Keyring{}
	for _, s := range secrets {
		if err := k.add(s); err != nil {
			return nil, err
		}
	}
	if len(k.roots) == 0 {
		return nil, fault.New("no signing key", keyHint)
	}
	return k, nil
}

func (k *Keyring) add(secret []byte) error {
	if len(secret) != KeySize {
		return fault.New(fmt.Sprintf("a signing key has %d bytes, not %d", len(secret), KeySize), keyHint)
	}
	if bytes.Count(secret, secret[:1]) == KeySize {
		return fault.New("a signing key is one byte over and over", keyHint)
	}
	if len(k.roots) == MaxKeys {
		return fault.New(fmt.Sprintf("more than %d signing keys", MaxKeys), "remove the oldest")
	}
	r := root{}
	copy(r.secret[:], secret)
	copy(r.id[:], expand(extract(r.secret[:], nil), "quavon-sandbox key id", len(r.id)))
	for _, other := range k.roots {
		if other.id == r.id {
			return fault.New("a signing key is there twice", "remove one of the two lines")
		}
	}
	k.roots = append(k.roots, r)
	return nil
}

func (k *Keyring) active() *root { return &k.roots[0] }

// ActiveID names the key that seals.
func (k *Keyring) ActiveID() KeyID { return k.active().id }

func (k *Keyring) find(id KeyID) (*root, error) {
	for i := range k.roots {
		if k.roots[i].id == id {
			return &k.roots[i], nil
		}
	}
	return nil, refuse(WrongKey, "it was made with the key %s, which isn't ours", id)
}

// derive makes an envelope's keys: its nonce is the salt, all of its context the
// info.
func (r *root) derive(c Context, nonce Nonce) *pair {
	var p pair
	copy(p[:], expand(extract(r.secret[:], nonce[:]), c.info("envelope"), len(p)))
	return &p
}

// info spells a context unambiguously: every part has its length before it.
func (c Context) info(use string) string {
	b := make([]byte, 0, 160)
	b = append(b, "quavon-sandbox/1"...)
	b = appendText(b, use)
	b = append(b, byte(c.Purpose))
	b = appendText(b, c.Audience)
	b = appendText(b, c.Job)
	b = binary.BigEndian.AppendUint32(b, c.Attempt)
	b = appendText(b, c.Runner)
	return string(append(b, c.Thread[:]...))
}

func extract(secret, salt []byte) []byte {
	prk, err := hkdf.Extract(sha256.New, secret, salt)
	if err != nil {
		panic(err) // only a FIPS policy refuses, and a 32-byte secret satisfies it
	}
	return prk
}

func expand(prk []byte, info string, n int) []byte {
	key, err := hkdf.Expand(sha256.New, prk, info, n)
	if err != nil {
		panic(err) // n is a small constant
	}
	return key
}
