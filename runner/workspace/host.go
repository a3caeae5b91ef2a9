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
	whyNotEmpty  = "is kept: it holds files that the job did not remove"
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
	if b.Shown != nil && !os.SameFile(fi, b.Shown) {
		return nil, errors.Join(errors.New("another directory has taken its place while the job ran"), root.Close())
	}
	return &host{root: root, self: fi, since: b.Since}, nil
}

func (h *host) Close() error { return h.root.Close() }

// found is how far a path leads.
type found struct {
	// dir holds the last name looked at.
	dir *os.Root
	// stop is the path of that name: all of the path, or an ancestor that is
	// missing or no directory.
	stop string
	// fi is nil when nothing has that name.
	fi fs.FileInfo
}

func (f found) Close() { f.dir.Close() } // nothing was written through it

// find walks down to a path; the caller closes what it returns.
func (h *host) find(path string) (f found, err error) {
	f.dir, err = h.root.OpenRoot(".")
	for end := 0; err == nil; end++ {
		name, _, more := strings.Cut(path[end:], "/")
		end += len(name)
		f.stop = path[:end]
		f.fi, err = lstat(f.dir, name)
		if err == nil && (f.fi == nil || !f.fi.IsDir() || !more) {
			return f, nil
		}
		if err == nil {
			f.dir, err = enter(f.dir, f.fi)
		}
	}
	if f.dir != nil {
		f.Close()
	}
	return found{}, err
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

// verify checks that what was found is still what the job was given, and copies
// its content to w. why is "" when it is.
func (h *host) verify(f found, e *Entry, w io.Writer) (why string, err error) {
	switch {
	case f.fi == nil:
		return whyGone, nil
	case f.stop != e.Path:
		return whyNotDir, nil
	}
	mode, ok := modeOf(f.fi)
	if !ok || mode != e.Old.Mode || !h.since.IsZero() && changed(f.fi).After(h.since) {
		return whyChanged, nil
	}
	sum := sha256.New()
	size, err := copyOld(f.dir, f.fi, io.MultiWriter(sum, w), e.Old.Size)
	if err == nil && (size != e.Old.Size || [32]byte(sum.Sum(nil)) != e.Old.SHA256) {
		why = whyChanged
	}
	return why, err
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
	st := stat(fi)
	return time.Unix(st.Ctim.Unix())
}

func device(fi fs.FileInfo) uint64 { return stat(fi).Dev }

// stat is the system's own form of what a file system told.
func stat(fi fs.FileInfo) syscall.Stat_t {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return *st
	}
	return syscall.Stat_t{}
}
