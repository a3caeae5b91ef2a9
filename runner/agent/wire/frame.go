package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// Field numbers of agentpb.Frame that are coded by hand: data is the hot path,
// and the generated code would copy it twice.
const (
	fieldStream  = 1
	fieldChannel = 2
	fieldData    = 3
)

const (
	lengthSize = 4
	// dataHead is the most bytes before the data in the body of a data frame:
	// three one-byte tags with a varint of 32 bits each.
	dataHead = 3 * (1 + 5)
	// headRoom is the same with the frame's length.
	headRoom = lengthSize + dataHead
	// readSize is what is read at once unless a frame is larger. Data of half a
	// buffer and more isn't copied at all.
	readSize = 16 << 10
)

// appendFrame appends the encoding of f to b.
func appendFrame(b []byte, f *agentpb.Frame) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, f)
	if err != nil {
		return nil, err
	}
	n := len(b) - start - lengthSize
	if n > MaxFrame {
		return nil, errors.New("message is larger than a frame may be")
	}
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	return b, nil
}

// sealData puts the header of a data frame before buf[headRoom:end] and returns
// the whole frame. The data must have been placed at headRoom.
func sealData(buf []byte, stream uint32, ch Channel, end int) []byte {
	var head [headRoom]byte
	h := head[:lengthSize]
	h = protowire.AppendTag(h, fieldStream, protowire.VarintType)
	h = protowire.AppendVarint(h, uint64(stream))
	if ch != 0 {
		h = protowire.AppendTag(h, fieldChannel, protowire.VarintType)
		h = protowire.AppendVarint(h, uint64(ch))
	}
	h = protowire.AppendTag(h, fieldData, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(end-headRoom))
	start := headRoom - len(h)
	binary.BigEndian.PutUint32(h, uint32(end-start-lengthSize))
	copy(buf[start:], h)
	return buf[start:end]
}

// frame is one decoded frame: either msg, or a number of bytes of data that the
// frameReader has to be asked for.
type frame struct {
	stream  uint32
	channel Channel
	size    int
	msg     *agentpb.Frame
}

// decode reads one frame's body.
func decode(body []byte) (frame, error) {
	msg := new(agentpb.Frame)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, msg); err != nil {
		return frame{}, violation("a frame that can't be decoded")
	}
	return frame{stream: msg.GetStream(), channel: Channel(msg.GetChannel()), msg: msg}, nil
}

// decodeData reads the head of a body of n bytes that consists of stream, channel
// and data in this order, as sealData makes it. Anything else is left to the
// generated code. It returns the length of the head.
func decodeData(b []byte, n int) (f frame, head int, ok bool) {
	for want := protowire.Number(fieldStream); ; {
		num, typ, m := protowire.ConsumeTag(b[head:])
		if m < 0 || num < want || num > fieldData {
			return f, 0, false
		}
		head += m
		v, m := protowire.ConsumeVarint(b[head:])
		if m < 0 || v > math.MaxUint32 {
			return f, 0, false
		}
		head += m
		want = num + 1
		switch {
		case num == fieldData && typ == protowire.BytesType && head+int(v) == n:
			f.size = int(v)
			return f, head, true
		case num == fieldStream && typ == protowire.VarintType:
			f.stream = uint32(v)
		case num == fieldChannel && typ == protowire.VarintType:
			f.channel = Channel(v)
		default:
			return f, 0, false
		}
	}
}

// frameReader splits a byte stream into frames with few and large reads.
type frameReader struct {
	r      io.Reader
	buf    []byte
	lo, hi int
}

// next returns the next frame. Its data must be read with take or discard before
// the next call. The error is io.EOF when the stream ends between two frames.
func (f *frameReader) next() (frame, error) {
	if err := f.fill(lengthSize); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(f.buf[f.lo:])
	if n == 0 || n > MaxFrame {
		return frame{}, violation("a frame of %d bytes", n)
	}
	f.lo += lengthSize
	body := int(n)
	if err := f.fill(min(body, dataHead)); err != nil {
		return frame{}, unexpected(err)
	}
	if d, head, ok := decodeData(f.buf[f.lo:f.hi], body); ok {
		f.lo += head
		return d, nil
	}
	if err := f.fill(body); err != nil {
		return frame{}, unexpected(err)
	}
	f.lo += body
	return decode(f.buf[f.lo-body : f.lo])
}

// vectorReader is a reader that can fill two buffers at once, the first one first.
type vectorReader interface {
	ReadVector(p, q []byte) (int, error)
}

// take reads the next len(p) bytes.
func (f *frameReader) take(p []byte) error {
	n := copy(p, f.buf[f.lo:f.hi])
	f.lo += n
	if v, ok := f.r.(vectorReader); ok {
		return f.takeVector(v, p[n:])
	}
	_, err := io.ReadFull(f.r, p[n:])
	return unexpected(err)
}

// takeVector reads all of p, and with its end what follows: frames that come one
// after the other cost a read each. Nothing is buffered unless p is empty.
func (f *frameReader) takeVector(v vectorReader, p []byte) error {
	for len(p) > 0 {
		f.makeRoom(readSize)
		n, err := v.ReadVector(p, f.buf[:readSize])
		if err != nil {
			return unexpected(err)
		}
		f.hi = max(n-len(p), 0)
		p = p[min(n, len(p)):]
	}
	return nil
}

// peek returns the next n bytes, valid until the next call, and skips them.
func (f *frameReader) peek(n int) ([]byte, error) {
	if err := f.fill(n); err != nil {
		return nil, unexpected(err)
	}
	f.lo += n
	return f.buf[f.lo-n : f.lo], nil
}

// fill reads until n bytes are buffered.
func (f *frameReader) fill(n int) error {
	for f.hi-f.lo < n {
		f.makeRoom(n)
		m, err := f.r.Read(f.buf[f.hi:min(len(f.buf), f.lo+max(n, readSize))])
		f.hi += m
		if f.hi-f.lo >= n {
			return nil
		}
		if err != nil && f.hi > f.lo {
			return unexpected(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unexpected is the error of a stream that ends within a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom moves what is buffered to the front, in a larger buffer when n bytes
// don't fit.
func (f *frameReader) makeRoom(n int) {
	if f.lo == f.hi {
		f.lo, f.hi = 0, 0
	}
	if f.lo == 0 && n <= len(f.buf) {
		return
	}
	dst := f.buf
	if n > len(dst) {
		dst = make([]byte, max(n, readSize))
	}
	f.hi = copy(dst, f.buf[f.lo:f.hi])
	f.buf, f.lo = dst, 0
}
