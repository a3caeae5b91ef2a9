// Package envelope seals what travels between submitters and runners: messages
// whose payload only holders of a shared key can read, and whose every byte they
// can check. It is pure: no clock, no network.
//
// An envelope is, with integers in network byte order and "text" a length byte
// and that many bytes of printable ASCII:
//
//	magic        3    "QSE"
//	version      1    1
//	algorithm    1    1: AES-256-GCM and HMAC-SHA-256; 2 is kept for Ed25519
//	key id       8    which root key
//	purpose      1
//	audience     text
//	job          text empty for health records
//	attempt      4
//	runner       text empty from submitters
//	thread      16    the nonce of the job's own envelope; zero in that one itself
//	nonce       16    random
//	not before   8    ms since 1970
//	expiry       8    ms since 1970
//	payload      4    length of the sealed payload, its tag included
//	…                 the sealed payload; all before it is associated data
//	MAC         32    over all before it, exactly as received
package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Nonce makes an envelope one of a kind.
type Nonce [16]byte

// NewNonce is a random nonce.
func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// Context is what an envelope is bound to. Its keys are derived from all of it, so
// what was sealed for one context can't be opened for another.
type Context struct {
	Purpose  Purpose
	Audience string
	// Job and Attempt name the delivery, Runner who made or holds it.
	Job     string
	Attempt uint32
	Runner  string
	// Thread is the nonce of the job's envelope: a later job of the same name has another.
	Thread Nonce
}

// Envelope is an envelope's content.
type Envelope struct {
	Context   Context
	Nonce     Nonce
	NotBefore time.Time
	Expiry    time.Time
	Payload   []byte
}

// MaxPayload bounds a payload, in bytes. Larger things travel in chunks.
const MaxPayload = 4 << 20

const (
	magic     = "QSE"
	version   = 1
	algorithm = 1
	tagSize   = 16
	macSize   = sha256.Size
	// maxHeader bounds all before the sealed payload.
	maxHeader = 512
	// MaxSize bounds a whole envelope, in bytes.
	MaxSize = maxHeader + MaxPayload + tagSize + macSize
)

// Seal returns the envelope's bytes. A zero nonce is replaced by a random one.
func (k *Keyring) Seal(e Envelope) ([]byte, error) {
	if len(e.Payload) > MaxPayload {
		return nil, refuse(Malformed, "payload of %d bytes, above %d", len(e.Payload), MaxPayload)
	}
	if e.Nonce == (Nonce{}) {
		e.Nonce = NewNonce()
	}
	key := k.active()
	head, err := appendHeader(make([]byte, 0, maxHeader+len(e.Payload)+tagSize+macSize), key.id, e)
	if err != nil {
		return nil, err
	}
	keys := key.derive(e.Context, e.Nonce)
	raw := keys.aead().Seal(head, make([]byte, 12), e.Payload, head)
	return keys.mac(raw, raw), nil
}

// Expect is what the receiver knows of an envelope before it opens it.
type Expect struct {
	Context Context
	// AnyDelivery accepts the attempt and the runner that the envelope names.
	AnyDelivery bool
	Now         time.Time
	// Skew is how far clocks may differ.
	Skew time.Duration
}

// Open checks the MAC, then that the envelope is the expected one and valid now,
// then opens it. Errors are *Refusal.
func (k *Keyring) Open(raw []byte, want Expect) (Envelope, error) {
	h, err := parse(raw)
	if err != nil {
		return Envelope{}, err
	}
	key, err := k.find(h.key)
	if err != nil {
		return Envelope{}, err
	}
	body := len(raw) - macSize
	keys := key.derive(h.Context, h.Nonce)
	if !hmac.Equal(keys.mac(nil, raw[:body]), raw[body:]) {
		return Envelope{}, refuse(Tampered, "MAC does not match")
	}
	if err := h.check(want); err != nil {
		return Envelope{}, err
	}
	h.Payload, err = keys.aead().Open(nil, make([]byte, 12), raw[h.size:body], raw[:h.size])
	if err != nil {
		return Envelope{}, refuse(Tampered, "payload does not open")
	}
	return h.Envelope, nil
}

// check compares what the envelope says with what its receiver expects.
func (h header) check(want Expect) error {
	got, ctx := h.Context, want.Context
	switch {
	case got.Purpose != ctx.Purpose:
		return refuse(WrongContext, "it is a %s, not a %s", got.Purpose, ctx.Purpose)
	case got.Audience != ctx.Audience:
		return refuse(WrongAudience, "it is for %q", got.Audience)
	case got.Job != ctx.Job:
		return refuse(WrongContext, "it is of job %q", got.Job)
	case !want.AnyDelivery && (got.Attempt != ctx.Attempt || got.Runner != ctx.Runner):
		return refuse(WrongContext, "it is of attempt %d, runner %q", got.Attempt, got.Runner)
	case got.Thread != ctx.Thread:
		return refuse(WrongContext, "it is of an earlier job of the same name")
	case want.Now.Add(want.Skew).Before(h.NotBefore):
		return refuse(TooEarly, "not valid before %s", h.NotBefore.UTC().Format(time.RFC3339))
	case !want.Now.Add(-want.Skew).Before(h.Expiry):
		return refuse(Expired, "expired at %s", h.Expiry.UTC().Format(time.RFC3339))
	}
	return nil
}

// pair is the two keys of one envelope.
type pair [2 * sha256.Size]byte

// aead seals with the first key. That key is used for one message only, because
// the envelope's nonce is part of its derivation: a constant GCM nonce is sound.
func (p *pair) aead() cipher.AEAD {
	block, err := aes.NewCipher(p[:32])
	if err != nil {
		panic(err) // 32 bytes are always a key
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has GCM's block size
	}
	return gcm
}

// mac appends to dst the MAC of data.
func (p *pair) mac(dst, data []byte) []byte {
	h := hmac.New(sha256.New, p[32:])
	h.Write(data)
	return h.Sum(dst)
}

func millis(b []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b))) //nolint:gosec // any 64 bits are a time
}
