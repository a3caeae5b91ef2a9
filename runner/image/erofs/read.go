package erofs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrFormat is content that isn't an image as this package writes it.
var ErrFormat = errors.New("not an EROFS image of ours")

const (
	// maxWalk bounds the directories of a path.
	maxWalk = 4096
	// maxDirSize is in bytes.
	maxDirSize = 1 << 30
)

// Reader reads images that Write made.
type Reader struct {
	r    io.ReaderAt
	meta int64
	root uint64
}

// File is an inode of an image.
type File struct {
	// Mode has Unix type and permission bits.
	Mode uint16
	Size int64

	r      *Reader
	layout uint16
	block  int64
	inline int64
}

// NewReader reads an image's superblock.
func NewReader(r io.ReaderAt) (*Reader, error) {
	b := make([]byte, 128)
	if _, err := r.ReadAt(b, superOffset); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if le.Uint32(b) != superMagic || b[12] != blockBits || le.Uint32(b[80:]) != 0 {
		return nil, ErrFormat
	}
	return &Reader{r, int64(le.Uint32(b[40:])) << blockBits, uint64(le.Uint16(b[14:]))}, nil
}

// Walk calls f for every name of the image, directories before what they hold,
// with its path: "etc/passwd". Hard links come once for each name.
func (r *Reader) Walk(f func(path string, file *File) error) error {
	w := &walker{r, f, map[uint64]bool{r.root: true}}
	root, err := r.inode(r.root)
	if err != nil {
		return err
	}
	return w.dir("", root, 0)
}

type walker struct {
	r    *Reader
	f    func(path string, file *File) error
	seen map[uint64]bool
}

func (w *walker) dir(at string, d *File, depth int) error {
	if depth > maxWalk || d.Size > maxDirSize {
		return fmt.Errorf("%w: directory %q is too deep or too big", ErrFormat, at)
	}
	b, err := io.ReadAll(d.Open())
	if err != nil {
		return err
	}
	return eachDirent(b, func(name string, nid uint64) error {
		if name == "." || name == ".." {
			return nil
		}
		file, err := w.r.inode(nid)
		if err != nil {
			return err
		}
		name = path.Join(at, name)
		if err := w.f(name, file); err != nil || file.Mode&unix.S_IFMT != unix.S_IFDIR {
			return err
		}
		if w.seen[nid] {
			return fmt.Errorf("%w: directory %q has two names", ErrFormat, name)
		}
		w.seen[nid] = true
		return w.dir(name, file, depth+1)
	})
}

// eachDirent takes a directory's blocks apart.
func eachDirent(b []byte, f func(name string, nid uint64) error) error {
	for len(b) > 0 {
		block := b[:min(BlockSize, len(b))]
		b = b[len(block):]
		if len(block) < direntSize {
			return ErrFormat
		}
		count := int(le.Uint16(block[8:])) / direntSize
		if count*direntSize > len(block) {
			return ErrFormat
		}
		for i := range count {
			from, to := int(le.Uint16(block[i*direntSize+8:])), len(block)
			if i+1 < count {
				to = int(le.Uint16(block[(i+1)*direntSize+8:]))
			}
			if from > to || to > len(block) {
				return ErrFormat
			}
			name := string(bytes.TrimRight(block[from:to], "\x00"))
			if name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("%w: a file is called %q", ErrFormat, name)
			}
			if err := f(name, le.Uint64(block[i*direntSize:])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reader) inode(nid uint64) (*File, error) {
	if nid > 1<<40 {
		return nil, ErrFormat
	}
	off := r.meta + int64(nid)<<slotBits
	b := make([]byte, inodeSize)
	if _, err := r.r.ReadAt(b, off); err != nil {
		return nil, fmt.Errorf("%w: inode %d: %w", ErrFormat, nid, err)
	}
	f := &File{
		Mode: le.Uint16(b[4:]), Size: int64(le.Uint64(b[8:])), r: r, layout: le.Uint16(b) &^ formatExtended,
		block: int64(le.Uint32(b[16:])) << blockBits, inline: off + inodeSize,
	}
	if count := int64(le.Uint16(b[2:])); count > 0 {
		f.inline += 12 + 4*(count-1)
	}
	if le.Uint16(b)&formatExtended == 0 || f.Size < 0 || f.layout != layoutPlain && f.layout != layoutInline {
		return nil, fmt.Errorf("%w: inode %d has another form", ErrFormat, nid)
	}
	return f, nil
}

// Regular says whether the file has content of its own.
func (f *File) Regular() bool { return f.Mode&unix.S_IFMT == unix.S_IFREG }

// At reads a regular file's content in any order.
func (f *File) At() *io.SectionReader { return io.NewSectionReader(f.r.r, f.block, f.Size) }

// Open reads a file's content: a directory's blocks, a symbolic link's target.
func (f *File) Open() io.Reader {
	if f.layout == layoutPlain {
		return f.At()
	}
	whole := f.Size &^ (BlockSize - 1)
	return io.MultiReader(io.NewSectionReader(f.r.r, f.block, whole), io.NewSectionReader(f.r.r, f.inline, f.Size-whole))
}
