package envelope

import (
	"encoding/binary"
)

// header is an envelope before its payload has been opened.
type header struct {
	Envelope
	key KeyID
	// size is where the sealed payload begins.
	size int
}

// appendHeader writes all that comes before the sealed payload.
func appendHeader(b []byte, key KeyID, e Envelope) ([]byte, error) {
	c := e.Context
	for _, s := range []string{c.Audience, c.Job, c.Runner} {
		if !validText(s) {
			return nil, refuse(Malformed, "%.80q can't be in an envelope", s)
		}
	}
	b = append(b, magic...)
	b = append(b, version, algorithm)
	b = append(b, key[:]...)
	b = append(b, byte(c.Purpose))
	b = appendText(b, c.Audience)
	b = appendText(b, c.Job)
	b = binary.BigEndian.AppendUint32(b, c.Attempt)
	b = appendText(b, c.Runner)
	b = append(b, c.Thread[:]...)
	b = append(b, e.Nonce[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.NotBefore.UnixMilli())) //nolint:gosec // 64 bits stay the same
	b = binary.BigEndian.AppendUint64(b, uint64(e.Expiry.UnixMilli()))    //nolint:gosec // 64 bits stay the same
	return binary.BigEndian.AppendUint32(b, uint32(len(e.Payload)+tagSize)), nil
}

func appendText(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...)
}

// maxText bounds a text, so that a header stays below maxHeader.
const maxText = 128

// validText says whether s may stand in a header: printable ASCII, so that it can
// be logged as it is.
func validText(s string) bool {
	if len(s) > maxText {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// parse reads an envelope without believing it. Lengths must add up to the byte.
func parse(raw []byte) (header, error) {
	if len(raw) > MaxSize {
		return header{}, refuse(Malformed, "%d bytes, above %d", len(raw), MaxSize)
	}
	r := reader{rest: raw}
	if string(r.take(len(magic))) != magic {
		return header{}, refuse(Malformed, "not an envelope")
	}
	v, alg := r.byte(), r.byte()
	if !r.short && (v != version || alg != algorithm) {
		return header{}, refuse(Unsupported, "version %d, algorithm %d", v, alg)
	}
	var h header
	copy(h.key[:], r.take(len(h.key)))
	h.Context.Purpose = Purpose(r.byte())
	h.Context.Audience = r.text()
	h.Context.Job = r.text()
	h.Context.Attempt = binary.BigEndian.Uint32(r.take(4))
	h.Context.Runner = r.text()
	copy(h.Context.Thread[:], r.take(16))
	copy(h.Nonce[:], r.take(16))
	h.NotBefore = millis(r.take(8))
	h.Expiry = millis(r.take(8))
	size := int64(binary.BigEndian.Uint32(r.take(4)))
	h.size = len(raw) - len(r.rest)
	if r.short || r.bad || size < tagSize || int64(len(r.rest)) != size+macSize {
		return header{}, refuse(Malformed, "truncated, or lengths don't add up")
	}
	return h, nil
}

// PeekPurpose is what an envelope that nobody has checked says it is for, 0 when it
// can't be read.
func PeekPurpose(raw []byte) Purpose {
	h, _ := parse(raw)
	return h.Context.Purpose
}

// reader takes fields off a slice. Past its end it yields zeros and remembers.
type reader struct {
	rest       []byte
	short, bad bool
}

var zeros [maxText]byte

func (r *reader) take(n int) []byte {
	if len(r.rest) < n {
		r.short, r.rest = true, nil
		return zeros[:n]
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) text() string {
	n := int(r.byte())
	if n > maxText {
		r.bad = true
		return ""
	}
	s := string(r.take(n))
	if !r.short && !validText(s) {
		r.bad = true
	}
	return s
}
