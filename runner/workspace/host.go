package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// Reasons why a host path is not what the job saw.
const (
	whyGone      = "is gone from the host"
	whyChanged   = "changed on the host meanwhile"
	whyThere     = "exists on the host by now"
	whyNotDir    = "lies below something that is no directory on the host"
	whyOtherDisk = "is on another file system than the workspace"
)

// host looks at the host directory without following symbolic links.
type host struct {
	root  *os.Root
	self  fs.FileInfo
	since time.Time
	// copied counts old content, in bytes.
	copied int64
}

func openHost(b Base) (*host, error) {
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &host{root: root, self: fi, since: b.Since}, nil
}

func (h *host) Close() error { return h.root.Close() }

// find walks down to path and stops where it ends, or at an ancestor that is
// missing (fi is nil) or no directory. It returns the open directory that holds
// the last name looked at, for the caller to close, and the path of that name.
func (h *host) find(path string) (dir *os.Root, stop string, fi fs.FileInfo, err error) {
	dir, err = h.root.OpenRoot(".")
	for end := 0; err == nil; end++ {
		name, _, more := strings.Cut(path[end:], "/")
		end += len(name)
		fi, err = lstat(dir, name)
		if err != nil || fi == nil || !fi.IsDir() || !more {
			stop = path[:end]
			break
		}
		dir, err = enter(dir, fi)
	}
	if err != nil && dir != nil {
		dir.Close() // nothing was written
	}
	return dir, stop, fi, err
}

// lstat returns nil for a name that isn't there.
func lstat(dir *os.Root, name string) (fs.FileInfo, error) {
	fi, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return fi, err
}

// enter opens the directory that was looked at, in place of its parent, and
// makes sure that it isn't one behind a link that was put there meanwhile.
func enter(parent *os.Root, want fs.FileInfo) (*os.Root, error) {
	defer parent.Close()
	dir, err := parent.OpenRoot(want.Name())
	if err != nil {
		return nil, err
	}
	fi, err := dir.Stat(".")
	if err == nil && !os.SameFile(fi, want) {
		err = fmt.Errorf("%s was replaced while it was opened", want.Name())
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// verify checks that a file or link is still what the job was given, and copies
// its content to w. why is "" when it is.
func (h *host) verify(e *Entry, w io.Writer) (why string, fi fs.FileInfo, err error) {
	dir, stop, fi, err := h.find(e.Path)
	if err != nil {
		return "", nil, err
	}
	defer dir.Close()
	switch {
	case fi == nil:
		return whyGone, nil, nil
	case stop != e.Path:
		return whyNotDir, nil, nil
	}
	mode, ok := modeOf(fi)
	if !ok || mode != e.Old.Mode || !h.since.IsZero() && changed(fi).After(h.since) {
		return whyChanged, nil, nil
	}
	sum := sha256.New()
	size, err := copyOld(dir, fi, io.MultiWriter(sum, w), e.Old.Size)
	if err != nil {
		return "", nil, err
	}
	if size != e.Old.Size || [32]byte(sum.Sum(nil)) != e.Old.SHA256 {
		return whyChanged, nil, nil
	}
	return "", fi, nil
}

// copyOld copies a file's content or a link's target, at most a byte more than
// size. A file of another size is not read at all.
func copyOld(dir *os.Root, fi fs.FileInfo, w io.Writer, size int64) (int64, error) {
	if fi.Mode()&fs.ModeSymlink != 0 {
		link, err := dir.Readlink(fi.Name())
		if err != nil {
			return 0, err
		}
		n, err := io.WriteString(w, link)
		return int64(n), err
	}
	if fi.Size() != size {
		return fi.Size(), nil
	}
	f, err := dir.OpenFile(fi.Name(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, fi) {
		return -1, err
	}
	return io.Copy(w, io.LimitReader(f, size+1))
}

// changed is the file's change time, which no program can set.
func changed(fi fs.FileInfo) time.Time {
	ct := fi.Sys().(*syscall.Stat_t).Ctim
	return time.Unix(ct.Unix())
}

func device(fi fs.FileInfo) uint64 { return fi.Sys().(*syscall.Stat_t).Dev }
