// Package ext4 writes ext4 images in one pass, with no mount and no staging
// directory. File contents are stored as they arrive, each byte once; the tree
// that names them may follow afterwards, and everything that depends on it is
// written behind the data:
//
//	superblock, group descriptors | file data | directories, links, attributes,
//	extent blocks, journal | bitmaps, inode tables | free space, never written
//
// Images have 4 KiB blocks, extents, 64-bit descriptors, checksums of all
// metadata and indexed directories; Linux 5.10 and later mounts them read-write
// and resize2fs grows them. The same calls give the same bytes everywhere: no
// clock, no randomness, no map order.
package ext4

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/quavon/quavon/runner/image/flatten"
)

// Options of an image.
type Options struct {
	// Identity says what the image is made from, such as an image digest and a
	// platform. UUID and hash seed are derived from it and the other options.
	Identity string
	// Label is at most 16 bytes.
	Label string
	// Free is the space in bytes that a user of the file system finds at least.
	Free int64
	// FreeInodes are for files to come; 0 is one for each 16 KiB of free space.
	FreeInodes int64
	// Size in bytes, a multiple of the block size; 0 is what content and Free
	// need.
	Size int64
	// MaxSize in bytes is a limit on the image, and what resize2fs can later
	// grow a mounted one to at no cost. 0 is DefaultMaxSize.
	MaxSize int64
	// ResizeInode prepares for growing: it reserves room for the group descriptors
	// of MaxSize, and inodes enough for what will be added. Without it Linux grows
	// a mounted file system by changing it to meta_bg.
	ResizeInode bool
	// Journal in bytes, at least MinJournal; 0 is none.
	Journal int64
	// Eager starts to write to the disk at once, for a file that will be synced.
	Eager bool
}

const (
	// BlockSize of every image, in bytes.
	BlockSize = 1 << blockBits
	// DefaultMaxSize is 512 GiB.
	DefaultMaxSize = 512 << 30
	// MinJournal is the shortest journal Linux accepts.
	MinJournal = 1024 * BlockSize
	// MaxLinks is how many names a file can have.
	MaxLinks = 65000
)

const (
	// maxImage keeps block numbers in 32 bits.
	maxImage = 1<<44 - 1<<28
	// maxResizable is how many descriptors the resize inode can reserve.
	maxResizable = 8 << 40
	maxJournal   = 10_240_000 * BlockSize
)

// Info describes a finished image.
type Info struct {
	UUID [16]byte
	// Size in bytes.
	Size int64
	// Free space in bytes, and inodes nobody uses.
	Free       int64
	Inodes     int64
	FreeInodes int64
}

// TooSmallError is an Options.Size or MaxSize that can't hold the content.
type TooSmallError struct {
	// Size is what the image may have and Need what would be enough, in bytes.
	Size, Need int64
}

func (e *TooSmallError) Error() string {
	return fmt.Sprintf("the image needs %d bytes, more than the %d it may have", e.Need, e.Size)
}

// EntryError is a file that ext4 can't hold.
type EntryError struct {
	// Path is the file's name in the image, any bytes.
	Path string
	Err  error
}

func (e *EntryError) Error() string {
	if len(e.Path) > 200 {
		return fmt.Sprintf("%q… (%d bytes): %v", e.Path[:200], len(e.Path), e.Err)
	}
	return fmt.Sprintf("%q: %v", e.Path, e.Err)
}

// Unwrap returns the reason.
func (e *EntryError) Unwrap() error { return e.Err }

func (o *Options) check() error {
	if o.MaxSize == 0 {
		o.MaxSize = max(DefaultMaxSize, o.Size)
	}
	switch {
	case len(o.Label) > 16:
		return errors.New("the label is longer than 16 bytes")
	case o.Free < 0 || o.FreeInodes < 0 || o.Size < 0 || o.MaxSize < 0:
		return errors.New("a size is negative")
	case o.Size%BlockSize != 0:
		return fmt.Errorf("the size %d is no multiple of %d", o.Size, BlockSize)
	case o.MaxSize > maxImage:
		return fmt.Errorf("the largest possible image has %d bytes", int64(maxImage))
	case o.ResizeInode && o.MaxSize > maxResizable:
		return fmt.Errorf("a resize inode reserves for at most %d bytes", int64(maxResizable))
	case o.Size > o.MaxSize || o.Free > o.MaxSize || o.FreeInodes > maxInodes:
		return errors.New("size, free space or free inodes exceed the largest image")
	case o.Journal != 0 && (o.Journal < MinJournal || o.Journal > maxJournal || o.Journal%BlockSize != 0):
		return fmt.Errorf("a journal has %d to %d bytes, a multiple of %d", MinJournal, int64(maxJournal), BlockSize)
	}
	return nil
}

// Writer makes one image. It implements flatten.Data, so layers can be scanned
// into it one after the other (then Prune), or scanned elsewhere, in parallel,
// and copied (Copy). Content lies in the image in the order it came. After an
// error a writer and its file are of no more use.
type Writer struct {
	opts Options
	id   identity
	heads
	out stream
	// free are runs of blocks that were allocated and given back, in order.
	free []run
	// stored is how many blocks hold content.
	stored int64
	// maps of all content that isn't one run of blocks, pieces all together.
	maps   []*blockMap
	pieces int
}

// NewWriter writes to an empty file.
func NewWriter(f *os.File, o Options) (*Writer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != 0 {
		return nil, fmt.Errorf("%s is not empty", f.Name())
	}
	h := newHeads(&o)
	limit := o.MaxSize
	if o.Size > 0 {
		limit = o.Size
	}
	w := &Writer{opts: o, id: newIdentity(&o), heads: h}
	w.out = newStream(f, h, limit>>blockBits)
	w.out.eager = o.Eager
	return w, nil
}

// Copy stores the content of every file of a finished tree, read from where the
// tree says it is, and leaves the tree pointing into the image.
func (w *Writer) Copy(t *flatten.Tree, open func(i *flatten.Inode) (io.Reader, error)) error {
	return t.Inodes(func(_ flatten.ID, i *flatten.Inode) error {
		if i.Nlink == 0 || i.Size == 0 {
			return nil
		}
		r, err := open(i)
		if err != nil {
			return err
		}
		i.Data, err = w.Append(r, i.Size)
		return err
	})
}
