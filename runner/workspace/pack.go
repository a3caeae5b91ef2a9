package workspace

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// Whose says which entries of a directory Pack takes.
type Whose int

// Owners' entries are those of the directory's own owner, Foreign ones all others,
// Everyones both.
const (
	Owners Whose = iota
	Foreign
	Everyones
)

// Pack writes a directory as a tar stream for a sandbox that can't see it:
// directories, regular files and symbolic links below dir. Permissions are kept,
// times to the second below; hard links become files of their own, and sockets,
// pipes and devices, as what the caller may not read, are left out. It returns how
// many entries it wrote. A file that shrinks while it is read is an error.
func Pack(ctx context.Context, dir string, whose Whose, w io.Writer) (entries int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	self, err := root.Stat(".")
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(w, packBuffer)
	p := packer{tw: tar.NewWriter(out), whose: whose, owner: uidOf(self), buf: make([]byte, packBuffer)}
	if err := p.dir(ctx, root, ""); err != nil {
		return p.entries, err
	}
	return p.entries, errors.Join(p.tw.Close(), out.Flush())
}

const packBuffer = 256 << 10

type packer struct {
	tw      *tar.Writer
	whose   Whose
	owner   uint32
	entries int
	buf     []byte
}

func uidOf(fi fs.FileInfo) uint32 {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ^uint32(0)
	}
	return st.Uid
}

// dir packs what is in a directory; rel is its path with a "/" behind, or "".
func (p *packer) dir(ctx context.Context, at *os.Root, rel string) error {
	names, err := readNames(at)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fi, err := at.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was there a moment ago
		}
		if err == nil {
			err = p.entry(ctx, at, rel, fi)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readNames lists a directory, sorted, so that a pack is the same each time.
func readNames(at *os.Root) ([]string, error) {
	f, err := at.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (p *packer) entry(ctx context.Context, at *os.Root, rel string, fi fs.FileInfo) error {
	mine := p.whose == Everyones || (p.whose == Owners) == (uidOf(fi) == p.owner)
	var err error
	switch fi.Mode().Type() {
	case fs.ModeDir:
		return p.subdir(ctx, at, rel, fi, mine)
	case 0:
		if mine {
			err = p.file(at, rel, fi)
		}
	case fs.ModeSymlink:
		if mine {
			err = p.link(at, rel, fi)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", rel+fi.Name(), err)
	}
	return nil
}

func (p *packer) subdir(ctx context.Context, at *os.Root, rel string, fi fs.FileInfo, mine bool) error {
	rel = path.Join(rel, fi.Name()) + "/"
	if mine {
		if err := p.header(rel, fi, ""); err != nil {
			return err
		}
	}
	sub, err := at.OpenRoot(".")
	if err == nil {
		sub, err = enter(sub, fi)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	err = p.dir(ctx, sub, rel)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func (p *packer) link(at *os.Root, rel string, fi fs.FileInfo) error {
	target, err := at.Readlink(fi.Name())
	if err != nil {
		return err
	}
	return p.header(rel+fi.Name(), fi, target)
}

func (p *packer) file(at *os.Root, rel string, fi fs.FileInfo) error {
	f, err := at.OpenFile(fi.Name(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil || !now.Mode().IsRegular() {
		return err
	}
	if err := p.header(rel+fi.Name(), now, ""); err != nil {
		return err
	}
	// The wrapper hides ReadFrom, which would bring a smaller buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tw}, io.LimitReader(f, now.Size()), p.buf)
	if err == nil && n < now.Size() {
		err = errors.New("it shrank while it was read")
	}
	return err
}

func (p *packer) header(name string, fi fs.FileInfo, link string) error {
	h := &tar.Header{Name: name, Mode: int64(fi.Mode().Perm()), ModTime: fi.ModTime().Truncate(time.Second), Linkname: link}
	switch fi.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag = tar.TypeDir
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
	default:
		h.Typeflag, h.Size = tar.TypeReg, fi.Size()
	}
	p.entries++
	return p.tw.WriteHeader(h)
}
