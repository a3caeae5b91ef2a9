// Package wire carries many streams over the one byte stream between a host and
// an agent. Both sides use it. A frame is a big-endian uint32 length and a
// protobuf message, see agentpb.Frame.
//
// Every stream has up to three one-way channels of bytes, each with credit of
// its own: a side sends no more than its peer has promised to hold, so a reader
// that stalls holds back its own channel and nothing else. A peer that breaks
// the protocol loses the connection, with a *Violation.
package wire

import (
	"errors"
	"fmt"
)

// ProtocolVersion is spoken by this build; both sides must agree exactly.
const ProtocolVersion = 4

// Bounds of the protocol; a peer that exceeds one is cut off.
const (
	// MaxData is the most bytes of a channel in one frame.
	MaxData = 512 << 10
	// MaxFrame is the most bytes of one encoded frame, without its length.
	MaxFrame = MaxData + 1<<10
	// Window is how many bytes of a channel may be on the way or unread.
	Window = 4 << 20
	// MaxStreams is how many streams the host may have open.
	MaxStreams = 64
	// MaxConnections is how many the guest may have open. They are connections of
	// the job's, many and mostly idle, so the host promises to hold NarrowWindow of
	// what each sends. One that is read as fast as it comes gets more, up to Window,
	// as long as all of a byte stream together have no more than MaxSpare beyond.
	MaxConnections = 1024
	NarrowWindow   = 256 << 10
	MaxSpare       = 32 << 20
	// MaxPath bounds a path in any message, in bytes.
	MaxPath = 4096
	// MaxArgs and MaxArgBytes bound a command's arguments, MaxEnvBytes its
	// environment, each string counted with a final zero byte.
	MaxArgs     = 8192
	MaxArgBytes = 256 << 10
	MaxEnv      = 8192
	MaxEnvBytes = 128 << 10
	// MaxText bounds an error message or a build's name.
	MaxText = 4096
)

// Channel numbers one of a stream's channels.
type Channel uint32

// Channels: the first flows from the stream's opener to its acceptor, the other
// two back.
const (
	In  Channel = 0
	Out Channel = 1
	Err Channel = 2
)

// numChannels is how many channels a stream has.
const numChannels = 3

// Side is one end of a connection.
type Side int

// The host opens odd streams, the guest even ones.
const (
	Host Side = iota
	Guest
)

// mayOpen is how many streams a side may have open.
func (s Side) mayOpen() int {
	if s == Guest {
		return MaxConnections
	}
	return MaxStreams
}

// Errors of a connection that ended in an orderly way.
var (
	// ErrClosed is the end of a connection or stream that this side closed.
	ErrClosed = errors.New("closed")
	// ErrPeerGone is the end of the byte stream: the other side has left.
	ErrPeerGone = errors.New("the other side has closed the connection")
)

// Violation is a breach of the protocol by the peer.
type Violation struct{ Reason string }

func (v *Violation) Error() string { return "protocol violation: " + v.Reason }

func violation(format string, args ...any) error {
	return &Violation{Reason: fmt.Sprintf(format, args...)}
}

// VersionError says that the peer speaks another version of the protocol.
type VersionError struct {
	Ours, Theirs uint32
	// Build is the peer's build, "" when it didn't say.
	Build string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("protocol version %d here, %d there", e.Ours, e.Theirs)
}
