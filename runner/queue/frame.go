package queue

import (
	"encoding/binary"

	"github.com/quavon/quavon/runner/queue/envelope"
)

// FrameKind says what a frame of a job's log is.
type FrameKind byte

// Kinds of frame.
const (
	frameEnd FrameKind = iota // the last frame of an attempt
	Stdout
	Stderr
	// Note is a message of the runner's, such as which step begins.
	Note
	// Cut says that the log reached its limit.
	Cut
	// Restart says that the job was begun again: what came before is of an earlier
	// attempt. It is the reader's own.
	Restart
)

// Frame is a piece of a job's log.
type Frame struct {
	Attempt uint32
	Kind    FrameKind
	// Step is the index of the step that printed it.
	Step uint16
	Data []byte
}

// Sizes of a frame. frameHead is what comes before the sealed part: the stream's id
// and the root key's.
const (
	maxFrame  = 64 << 10
	frameHead = 16 + 8
	frameBody = 1 + 2
	// MaxFrameBytes bounds a frame as it is in Valkey.
	maxFrameBytes = frameHead + frameBody + maxFrame + envelope.Overhead
)

func encodeFrame(b []byte, f Frame) []byte {
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint16(b, f.Step)
	return append(b, f.Data...)
}

func decodeFrame(b []byte) (Frame, error) {
	if len(b) < frameBody || len(b) > frameBody+maxFrame || FrameKind(b[0]) > Cut {
		return Frame{}, envelope.Refuse(envelope.Malformed, "a frame of %d bytes", len(b))
	}
	return Frame{Kind: FrameKind(b[0]), Step: binary.BigEndian.Uint16(b[1:]), Data: b[frameBody:]}, nil
}

// frameReader opens the frames of one attempt's log, which must come complete and
// in order.
type frameReader struct {
	keys    *envelope.Keyring
	context envelope.Context
	head    [frameHead]byte
	sealer  *envelope.Sealer
	next    uint64
	ended   bool
}

// open opens the next frame as it was in Valkey.
func (r *frameReader) open(raw []byte) (Frame, error) {
	if len(raw) < frameHead || len(raw) > maxFrameBytes || r.ended {
		return Frame{}, envelope.Refuse(envelope.Malformed, "a sealed frame of %d bytes", len(raw))
	}
	if r.sealer == nil {
		copy(r.head[:], raw)
		var err error
		if r.sealer, err = r.keys.Opener(r.context, envelope.Nonce(r.head[:16]), envelope.KeyID(r.head[16:])); err != nil {
			return Frame{}, err
		}
	}
	if [frameHead]byte(raw[:frameHead]) != r.head {
		return Frame{}, envelope.Refuse(envelope.Tampered, "frame %d is of another stream", r.next)
	}
	// Whether a frame is the last is known by trying: only one of the two opens.
	sealed := raw[frameHead:]
	body, err := r.sealer.Open(nil, sealed, r.next, false)
	if err != nil {
		if body, err = r.sealer.Open(nil, sealed, r.next, true); err != nil {
			return Frame{}, err
		}
		r.ended = true
	}
	f, err := decodeFrame(body)
	if err == nil && r.ended != (f.Kind == frameEnd) {
		err = envelope.Refuse(envelope.Malformed, "frame %d ends the log or doesn't", r.next)
	}
	f.Attempt = r.context.Attempt
	r.next++
	return f, err
}
