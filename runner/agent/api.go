// Package agent is the host's side of the protocol with quavon-guest, the agent
// inside each sandbox: one byte stream, length-prefixed protobuf frames, streams
// with credit. Everything that comes back is hostile input and bounded here.
package agent

import (
	"io"
	"io/fs"
	"time"

	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/job"
)

// ProtocolVersion is spoken by this build; host and guest must agree exactly.
const ProtocolVersion = wire.ProtocolVersion

// Setup arranges the job's view of the file system, once, before anything else:
// first Points, then Dirs, then Overlays, then Binds, so that these may lie below a Dir,
// where a missing target is made. After it the agent gives up the capability to mount.
type Setup struct {
	// WritableRoot puts a writable layer on scratch over the whole root, before
	// anything else, so that a missing target is made anywhere.
	WritableRoot bool
	// Points are made in a writable root, before anything is mounted in it.
	Points []Point
	// Overlays are mounted in order; the upper layer of overlay i is on scratch.
	Overlays []Overlay
	// Binds show a path of the sandbox read-only at a second place.
	Binds []Bind
	// Dirs are made on scratch and mounted at their path, writable.
	Dirs []Dir
}

// Point is a directory that a root must have, or a file: what the root has instead is
// replaced, and so is a symbolic link above. One of the kind stays as it is.
type Point struct {
	Path string
	Mode fs.FileMode
	UID  uint32
	GID  uint32
	// Body is what a file has that is missing or empty; "" makes a directory.
	Body string
	// Renew gives a directory or an empty file that is there this owner and mode too: the
	// image has none, whoever has made it.
	Renew bool
	// Follow makes a directory where the root's links lead instead of replacing them, and
	// nothing where that can't be: whoever starts there is told.
	Follow bool
}

// Overlay shows Lower at Target with a writable layer of the job's own.
type Overlay struct {
	Lower, Target string
	// Protect lists paths below Target that are mounted read-only again.
	Protect []string
	// Mask lists files below Target that look empty and can't be written.
	Mask []string
}

// Bind shows Source read-only at Target.
type Bind struct{ Source, Target string }

// Dir is a writable directory on scratch, mounted at Path.
type Dir struct {
	Path string
	Mode fs.FileMode
	UID  uint32
	GID  uint32
}

// Command is one process for the agent to start.
type Command struct {
	Argv []string
	// Env is the whole environment, "KEY=value".
	Env []string
	// Dir is absolute.
	Dir    string
	UID    uint32
	GID    uint32
	Groups []uint32
	// TTY gives the process a terminal of Rows × Cols; stderr is then empty.
	TTY  bool
	Rows uint16
	Cols uint16
	// Timeout makes the agent end the command and all it started; zero is none.
	Timeout time.Duration
	// Grace is between SIGTERM and SIGKILL when Timeout ends it.
	Grace time.Duration
}

// Stdio is a command's standard streams on the host's side; nil ones are empty
// or discarded. A slow writer holds back the command, nothing else.
type Stdio struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code; 128+n after signal n; 126 or 127 when it could not
	// be started, as shells do.
	Code int
	// Signal is 0 when the command exited.
	Signal int
	// TimedOut says that Command.Timeout ended it.
	TimedOut bool
	// StartError is why the command could not be started, "" when it was.
	StartError string
	// DiskFull says that scratch had no room left at some time while the command
	// ran, as the agent sampled it: the job has seen "no space left on device".
	DiskFull bool
	Usage    job.Usage
}

// GetRequest asks for files as a tar stream.
type GetRequest struct {
	// Dir is absolute; Globs are relative to it, "**" crosses directories. No
	// globs means everything below Dir.
	Dir   string
	Globs []string
	// MaxBytes bounds the content of all files together, MaxEntries their
	// number. Both must be set.
	MaxBytes   int64
	MaxEntries int
}

// DiffRequest asks what changed in an overlay since Setup.
type DiffRequest struct {
	// Overlay is the index in Setup.Overlays.
	Overlay int
	// Content asks for the files themselves too, not only their names.
	Content    bool
	MaxBytes   int64
	MaxEntries int
}

// The tar stream of a diff has one entry per change, relative to the overlay's
// target, sorted bytewise with a "/" behind directories' names. PAX records say
// what changed and, with content, what was there before.
const (
	// PAXChange is a job.ChangeKind.
	PAXChange = "QUAVON.change"
	// PAXOldMode is git's mode of what a modified or deleted entry was: octal
	// 100644, 100755, 120000 or 40000.
	PAXOldMode = "QUAVON.old.mode"
	// PAXOldSize and PAXOldSHA256 tell what an old file held, of a symbolic link
	// its target: a decimal number of bytes and a hexadecimal digest.
	PAXOldSize   = "QUAVON.old.size"
	PAXOldSHA256 = "QUAVON.old.sha256"
)

// FileInfo is what Stat returns.
type FileInfo struct {
	Path string
	Size int64
	// Mode has Go's type bits and permissions, setuid, setgid and sticky.
	Mode    fs.FileMode
	UID     uint32
	GID     uint32
	ModTime time.Time
	// Link is a symbolic link's target.
	Link string
}
