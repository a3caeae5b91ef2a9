// Package files moves files in and out of a sandbox, from inside: Put and Get
// as tar streams, Diff for what changed in an overlay, Stat for one path. It is
// linked into quavon-guest and runs with the agent's capabilities on
// directories that a job controls, so it opens everything below an os.Root,
// never opens what could block, and bounds what it reads.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/quavon/quavon/runner/sandbox"
)

const (
	// maxPath is the longest path, in bytes, that is put in a stream; the host
	// refuses longer ones.
	maxPath = 4096
	// maxNames bounds the names of one directory held in memory.
	maxNames = 1 << 20
	// bufferSize is for copying content.
	bufferSize = 256 << 10
)

// Limits bound one transfer: Bytes the content of all files together, Entries
// their number, directories and links included.
type Limits struct {
	Bytes   int64
	Entries int
}

// LimitError says that a transfer would exceed a limit, and at which entry.
type LimitError struct {
	// What is the unit: "bytes", "entries", "names in a directory", or "bytes
	// in a path".
	What string
	Max  int64
	Path string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%q: more than %d %s", e.Path, e.Max, e.What)
}

// EntryError says which entry of a transfer failed.
type EntryError struct {
	Path string
	Err  error
}

func (e *EntryError) Error() string { return fmt.Sprintf("%q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// wrap names the entry in an error that doesn't name one yet.
func wrap(path string, err error) error {
	var named *EntryError
	var limit *LimitError
	if err == nil || errors.As(err, &named) || errors.As(err, &limit) {
		return err
	}
	return &EntryError{path, err}
}

// meter counts a transfer against its limits.
type meter struct {
	max     Limits
	bytes   int64
	entries int
}

// take accounts for an entry with n bytes of content, before they are moved.
func (m *meter) take(path string, n int64) error {
	if len(path) > maxPath {
		return &LimitError{"bytes in a path", maxPath, path[:64] + "…"}
	}
	if m.entries >= m.max.Entries {
		return &LimitError{"entries", int64(m.max.Entries), path}
	}
	if n < 0 || n > m.max.Bytes-m.bytes {
		return &LimitError{"bytes", m.max.Bytes, path}
	}
	m.entries++
	m.bytes += n
	return nil
}

// openDir opens a directory that a job may have replaced by a symbolic link.
// The link is followed, as it would be for any user, but never into the
// agent's own directory.
func openDir(dir string) (*os.Root, error) {
	f, err := os.OpenFile(dir, syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	self := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	real, err := os.Readlink(self)
	if err != nil {
		return nil, err
	}
	if real == sandbox.GuestDir || strings.HasPrefix(real, sandbox.GuestDir+"/") {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: errors.New("is inside " + sandbox.GuestDir)}
	}
	return os.OpenRoot(self)
}

// enter opens a directory that was looked at, a single name below root, and makes
// sure that it is that one. os.Root alone doesn't confine here: gVisor follows a
// symbolic link that is opened with O_DIRECTORY|O_NOFOLLOW.
func enter(root *os.Root, fi fs.FileInfo) (*os.Root, error) {
	sub, err := root.OpenRoot(fi.Name())
	if err != nil {
		return nil, err
	}
	now, err := sub.Stat(".")
	if err == nil && !os.SameFile(now, fi) {
		err = &fs.PathError{Op: "open", Path: fi.Name(), Err: errors.New("is another directory than a moment ago")}
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// enterAll opens a path below root, name by name, none of them a link.
func enterAll(root *os.Root, dir string) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	for part := range strings.SplitSeq(dir, "/") {
		if err != nil {
			return nil, err
		}
		if part == "." {
			continue
		}
		var fi fs.FileInfo
		var next *os.Root
		if fi, err = at.Lstat(part); err == nil && !fi.IsDir() {
			err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
		}
		if err == nil {
			next, err = enter(at, fi)
		}
		at.Close() // nothing was written through it
		at = next
	}
	return at, err
}

// names lists a directory, sorted. A directory that changes meanwhile may name an
// entry twice; one is enough.
func names(root *os.Root, path string) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []string
	for {
		some, err := f.Readdirnames(4096)
		all = append(all, some...)
		if len(all) > maxNames {
			return nil, &LimitError{"names in a directory", maxNames, path}
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return slices.Compact(all), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// openRegular opens a file that was seen to be regular, without blocking when
// it has become something else since.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("is no longer a regular file")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, fi, nil
}

// copyExactly copies n bytes. The wrappers hide ReadFrom and WriteTo, which
// would bring a smaller buffer of their own.
func copyExactly(w io.Writer, r io.Reader, n int64, buf []byte) error {
	got, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{io.LimitReader(r, n)}, buf)
	if err == nil && got < n {
		err = fmt.Errorf("ended after %d of %d bytes: it changed while it was read", got, n)
	}
	return err
}
