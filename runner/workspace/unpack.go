package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Unpack extracts a snapshot, a tar stream such as Pack with Everyones writes, into
// dir, an empty directory of the caller's own that nobody else can write to. Unlike
// Collect it keeps git's own data and links that lead elsewhere: only a sandbox will
// follow them. Permissions and times are kept, setuid, setgid and sticky bits not.
// It returns how many entries there were.
func Unpack(ctx context.Context, r io.Reader, dir string, lim Limits) (entries int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fault.Wrap(err, "unpack the snapshot", "check that "+dir+" can be written to")
	}
	defer root.Close()
	u := unpacker{root: root, left: lim, buf: make([]byte, packBuffer)}
	defer u.leave()
	for tr := newTarReader(r, lim); ; entries++ {
		if ctx.Err() != nil {
			return entries, context.Cause(ctx)
		}
		h, err := tr.next()
		if errors.Is(err, io.EOF) {
			return entries, u.settle()
		}
		if err == nil {
			err = u.entry(h, tr)
		}
		if err != nil {
			return entries, snapshotFault(err)
		}
	}
}

func snapshotFault(err error) error {
	if host := (*fs.PathError)(nil); errors.As(err, &host) {
		return fault.Wrap(err, "unpack the snapshot", "make room on the runner's disk").WithCode(string(job.ReasonSandboxUnavailable))
	}
	return fault.Wrap(err, "unpack the snapshot", "send a smaller directory, or one without odd names").WithCode(string(job.ReasonRejected))
}

type unpacker struct {
	root *os.Root
	left Limits
	buf  []byte
	// in is the open directory of the last entry, at path inPath: entries come one
	// directory after the other.
	in     *os.Root
	inPath string
	// closed are directories that get their permissions last, so that they can be
	// filled.
	closed []dirMode
}

type dirMode struct {
	path string
	perm fs.FileMode
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // git archive's note of the commit
	}
	if u.left.Entries--; u.left.Entries < 0 || h.Size < 0 || h.Size > u.left.Bytes {
		return errors.New("it has more files or bytes than are taken")
	}
	u.left.Bytes -= h.Size
	name := strings.TrimSuffix(h.Name, "/")
	if err := checkPath(name); err != nil {
		return fmt.Errorf("%s: %w", quotePath(h.Name), err)
	}
	if err := u.enter(path.Dir(name)); err != nil {
		return err
	}
	base := path.Base(name)
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(name, fs.FileMode(h.Mode).Perm())
	case tar.TypeReg:
		return u.file(base, h, content)
	case tar.TypeSymlink:
		return u.in.Symlink(h.Linkname, base)
	}
	return fmt.Errorf("%s: type %q is none of file, directory and link", quotePath(name), h.Typeflag)
}

// enter opens the directory of the next entry, made if it has no entry of its own.
func (u *unpacker) enter(rel string) error {
	if u.in != nil && u.inPath == rel {
		return nil
	}
	u.leave()
	if err := u.root.MkdirAll(rel, 0o755); err != nil {
		return err
	}
	in, err := u.root.OpenRoot(rel)
	if err == nil {
		u.in, u.inPath = in, rel
	}
	return err
}

func (u *unpacker) leave() {
	if u.in != nil {
		u.in.Close() // nothing was written through it
		u.in = nil
	}
}

func (u *unpacker) dir(name string, perm fs.FileMode) error {
	err := u.in.Mkdir(path.Base(name), 0o755)
	if errors.Is(err, fs.ErrExist) {
		err = nil // the next line fails if it is no directory
	}
	if perm != 0o755 {
		u.closed = append(u.closed, dirMode{name, perm})
	}
	return err
}

func (u *unpacker) file(base string, h *tar.Header, content io.Reader) error {
	f, err := u.in.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(content, h.Size), u.buf)
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode).Perm())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if h.ModTime.Before(time.Now()) {
		return u.in.Chtimes(base, time.Time{}, h.ModTime)
	}
	return nil
}

// settle gives directories their permissions, the innermost first.
func (u *unpacker) settle() error {
	for i := len(u.closed) - 1; i >= 0; i-- {
		fi, err := u.root.Lstat(u.closed[i].path)
		if err == nil && fi.IsDir() {
			err = u.root.Chmod(u.closed[i].path, u.closed[i].perm)
		}
		if err != nil {
			return snapshotFault(err)
		}
	}
	return nil
}
