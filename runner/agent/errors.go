package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
)

// errBadReply is an answer that follows the protocol and still makes no sense.
var errBadReply = &wire.Violation{Reason: "an answer that makes no sense"}

// RemoteError is an operation that failed inside the sandbox. It unwraps to the
// error number, so errors.Is finds syscall.ENOSPC or fs.ErrNotExist.
type RemoteError struct {
	// Message is hostile: bounded, and quoted where it isn't plain text.
	Message string
	// Errno is 0 when the failure has no number.
	Errno syscall.Errno
}

func (e *RemoteError) Error() string { return e.Message }

// Unwrap returns the error number.
func (e *RemoteError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// remote is the error that a reply carries, nil when it carries none.
func remote(r *agentpb.Reply) error {
	if r.GetError() == "" {
		return nil
	}
	return &RemoteError{Message: clean(r.GetError()), Errno: syscall.Errno(r.GetErrno())}
}

// clean bounds text from the sandbox and escapes what a terminal would act on.
func clean(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s[:min(len(s), wire.MaxText)], "\uFFFD") {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// errTooMuch is a sandbox that sends more than was asked for.
var errTooMuch = errors.New("the sandbox sent more than the limits allow")

// build names this build in a handshake.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// posixMode is a Go mode as the kernel's permissions, set-id and sticky bits.
func posixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, posix := range map[fs.FileMode]uint32{
		fs.ModeSetuid: syscall.S_ISUID, fs.ModeSetgid: syscall.S_ISGID, fs.ModeSticky: syscall.S_ISVTX,
	} {
		if m&bit != 0 {
			mode |= posix
		}
	}
	return mode
}
