package websocket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Opcodes of RFC 6455.
const (
	Continuation byte = 0
	Text         byte = 1
	Binary       byte = 2
	Close        byte = 8
	Ping         byte = 9
	Pong         byte = 10
)

// Codes of a Close frame.
const (
	ProtocolError   = 1002
	PolicyViolation = 1008
)

// MaxControl is the longest payload of a control frame, in bytes.
const MaxControl = 125

// Header is what stands before a frame's payload.
type Header struct {
	Fin    bool
	Opcode byte
	// Masked says that each byte of the payload is XORed with one of Key, in turn.
	Masked bool
	Key    [4]byte
	// Length is that of the payload, in bytes.
	Length int64
}

// Control says whether the frame is one of its own between those of a message.
func (h Header) Control() bool { return h.Opcode >= Close }

// Append writes the header in its shortest form.
func (h Header) Append(b []byte) []byte {
	first := h.Opcode
	if h.Fin {
		first |= 0x80
	}
	mask := byte(0)
	if h.Masked {
		mask = 0x80
	}
	switch n := uint64(h.Length); { //nolint:gosec // it isn't negative
	case n < 126:
		b = append(b, first, mask|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, first, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, first, mask|127), n)
	}
	if h.Masked {
		b = append(b, h.Key[:]...)
	}
	return b
}

// Closing is a whole Close frame, without a mask.
func Closing(code uint16, why string) []byte {
	why = why[:min(len(why), MaxControl-2)]
	b := Header{Fin: true, Opcode: Close, Length: int64(2 + len(why))}.Append(nil)
	return append(binary.BigEndian.AppendUint16(b, code), why...)
}

// ErrFrame is a frame that RFC 6455 has no place for.
var ErrFrame = errors.New("no proper WebSocket frame")

func bad(why string) error { return fmt.Errorf("%w: %s", ErrFrame, why) }

// Reader reads frames one after the other: a header by Next, then its payload by Read.
type Reader struct {
	r *bufio.Reader
	// masked is how frames must be: a client's are.
	masked bool
	// left is how much of the payload wasn't read yet, within that a message's next frame
	// is yet to come.
	left   int64
	within bool
	closed bool
}

// FromClient reads what a client sends.
func FromClient(r *bufio.Reader) *Reader { return &Reader{r: r, masked: true} }

// FromServer reads what a server sends.
func FromServer(r *bufio.Reader) *Reader { return &Reader{r: r} }

// Next reads the next frame's header. The error is io.EOF where the sender has ended
// between frames, or has said that it is done; ErrFrame for what is none.
func (r *Reader) Next() (Header, error) {
	if r.closed {
		return Header{}, io.EOF
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return Header{}, err
	}
	var b [2]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		return Header{}, err
	}
	h := Header{Fin: b[0]&0x80 != 0, Opcode: b[0] & 0x0f, Masked: b[1]&0x80 != 0, Length: int64(b[1] & 0x7f)}
	if err := r.check(h, b[0]); err != nil {
		return Header{}, err
	}
	if err := r.extend(&h); err != nil {
		return Header{}, err
	}
	r.left, r.closed = h.Length, h.Opcode == Close
	if !h.Control() {
		r.within = !h.Fin
	}
	return h, nil
}

// check looks at what the first two bytes say.
func (r *Reader) check(h Header, first byte) error {
	switch {
	case first&0x70 != 0:
		return bad("a reserved bit is set, though no extension was agreed on")
	case h.Masked != r.masked:
		return bad("a client's frame must be masked, and a server's must not")
	case h.Opcode > Binary && h.Opcode < Close || h.Opcode > Pong:
		return bad("an opcode that is reserved")
	case h.Control() && (!h.Fin || h.Length > MaxControl):
		return bad("a control frame that is long or in parts")
	case h.Opcode == Close && h.Length == 1:
		return bad("a Close frame with half a code")
	case !h.Control() && (h.Opcode == Continuation) != r.within:
		return bad("a message begins within another, or goes on without a beginning")
	}
	return nil
}

// extend reads the rest of the header. A length must be in its shortest form, so that
// nobody reads another one.
func (r *Reader) extend(h *Header) error {
	var b [8]byte
	size := map[int64]int{126: 2, 127: 8}[h.Length]
	if size > 0 {
		if err := r.full(b[8-size:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint64(b[:])
		if n>>63 != 0 || size == 2 && n < 126 || size == 8 && n <= 0xffff {
			return bad("a length that isn't in its shortest form, or is too large")
		}
		h.Length = int64(n)
	}
	if h.Masked {
		return r.full(h.Key[:])
	}
	return nil
}

func (r *Reader) full(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Left is how much of the payload wasn't read yet, in bytes.
func (r *Reader) Left() int64 { return r.left }

// Read reads the payload, masked as it is, and returns io.EOF at its end.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
