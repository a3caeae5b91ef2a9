package wire

import (
	"encoding/binary"
	"errors"
	"io"

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
	// headRoom is the most bytes before the data in an encoded data frame:
	// length, then three one-byte tags with a varint of 32 bits each.
	headRoom = lengthSize + 3*(1+5)
	// minRead and maxRead bound the read buffer, which grows with what arrives.
	minRead = 16 << 10
	maxRead = 2 * (lengthSize + MaxFrame)
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

// frame is one decoded frame: either data, valid until the next read, or msg.
type frame struct {
	stream  uint32
	channel Channel
	data    []byte
	msg     *agentpb.Frame
}

// decode reads one frame's body.
func decode(body []byte) (frame, error) {
	if f, ok := decodeData(body); ok {
		return f, nil
	}
	msg := new(agentpb.Frame)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, msg); err != nil {
		return frame{}, violation("a frame that can't be decoded")
	}
	return frame{stream: msg.GetStream(), channel: Channel(msg.GetChannel()), msg: msg}, nil
}

// decodeData reads a body that consists of stream, channel and data in this
// order, as sealData makes it. Anything else is left to the generated code.
func decodeData(b []byte) (frame, bool) {
	var f frame
	for want := protowire.Number(1); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || num < want || num > fieldData {
			return f, false
		}
		want, b = num+1, b[n:]
		if num == fieldData {
			data, n := protowire.ConsumeBytes(b)
			if typ != protowire.BytesType || n != len(b) {
				return f, false
			}
			f.data = data
			return f, true
		}
		v, n := protowire.ConsumeVarint(b)
		if n < 0 || typ != protowire.VarintType || v > 1<<32-1 {
			return f, false
		}
		if b = b[n:]; num == fieldStream {
			f.stream = uint32(v)
		} else {
			f.channel = Channel(v)
		}
	}
	return f, false
}

// frameReader splits a byte stream into frames with few and large reads.
type frameReader struct {
	r      io.Reader
	buf    []byte
	lo, hi int
}

// next returns the body of the next frame, valid until the next call. The error
// is io.EOF when the stream ends between two frames.
func (f *frameReader) next() ([]byte, error) {
	if err := f.fill(lengthSize); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(f.buf[f.lo:])
	if n == 0 || n > MaxFrame {
		return nil, violation("a frame of %d bytes", n)
	}
	if err := f.fill(lengthSize + int(n)); err != nil {
		return nil, err
	}
	body := f.buf[f.lo+lengthSize : f.lo+lengthSize+int(n)]
	f.lo += lengthSize + int(n)
	return body, nil
}

// fill reads until n bytes are buffered.
func (f *frameReader) fill(n int) error {
	for f.hi-f.lo < n {
		f.makeRoom(n)
		m, err := f.r.Read(f.buf[f.hi:])
		f.hi += m
		if f.hi-f.lo >= n {
			return nil
		}
		if err != nil {
			return f.readError(err)
		}
	}
	return nil
}

func (f *frameReader) readError(err error) error {
	if errors.Is(err, io.EOF) && f.hi > f.lo {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom moves what is buffered to the front, in a larger buffer when n bytes
// don't fit or the last read has filled the buffer.
func (f *frameReader) makeRoom(n int) {
	size := len(f.buf)
	if f.hi == size {
		size *= 2
	}
	size = min(max(size, n, minRead), maxRead)
	if f.lo == 0 && size == len(f.buf) {
		return
	}
	dst := f.buf
	if size > len(f.buf) {
		dst = make([]byte, size)
	}
	f.hi = copy(dst, f.buf[f.lo:f.hi])
	f.buf, f.lo = dst, 0
}
