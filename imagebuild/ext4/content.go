package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Sparse is a reader that knows its holes.
type Sparse interface {
	io.Reader
	// Hole passes the zeros at the reader's place without reading them and
	// returns how many bytes they are; 0 means read on.
	Hole() (int64, error)
}

// maxPieces bounds the memory that extents take: with so many, only windows that
// are all zeros still become holes.
const maxPieces = 1 << 20

// maxFile is what extents can map, in bytes.
const maxFile = (1<<32 - 1) * BlockSize

var zeros [windowSize]byte

// Append stores the next size bytes of r and returns where: a value for
// flatten's Inode.Data. Blocks of zeros become holes, and r may be a Sparse.
func (w *Writer) Append(r io.Reader, size int64) (int64, error) {
	return w.append(r, size, true)
}

func (w *Writer) append(r io.Reader, size int64, holes bool) (int64, error) {
	if size > maxFile {
		return 0, fmt.Errorf("a file of %d bytes is too big for ext4", size)
	}
	c := content{w: w, src: source{r: r}, holes: holes}
	c.src.sparse, _ = r.(Sparse)
	for left := size; left > 0; {
		n := min(left, windowSize)
		if skip := min(c.src.zeros, left) &^ (windowSize - 1); skip > 0 {
			n = skip
			c.src.zeros -= n
			c.logical += uint32(n >> blockBits)
		} else if err := c.window(int(n)); err != nil {
			return 0, err
		}
		left -= n
	}
	return w.keep(c.extents, size), nil
}

// content is one file on its way into the image.
type content struct {
	w   *Writer
	src source
	// holes are made of zeros.
	holes bool
	// logical is the file's next block.
	logical uint32
	extents []extent
	one     [1]extent
}

func (c *content) window(n int) error {
	buf, err := c.w.out.window((n + BlockSize - 1) &^ (BlockSize - 1))
	if err != nil {
		return err
	}
	if err := c.src.fill(buf[:n]); err != nil {
		return err
	}
	clear(buf[n:])
	for len(buf) > 0 {
		zero, k := c.same(buf)
		if zero {
			c.logical += uint32(k >> blockBits)
		} else if err := c.keep(buf[:k]); err != nil {
			return err
		}
		buf = buf[k:]
	}
	return nil
}

// same measures the blocks at the start of a window that are all a hole, or all
// data.
func (c *content) same(buf []byte) (zero bool, n int) {
	if !c.holes {
		return false, len(buf)
	}
	if c.w.pieces+len(c.extents) >= maxPieces {
		return isZero(buf), len(buf)
	}
	zero = isZero(buf[:BlockSize])
	for n = BlockSize; n < len(buf) && isZero(buf[n:n+BlockSize]) == zero; {
		n += BlockSize
	}
	return zero, n
}

// keep stores blocks that lie in the stream's buffer, at its end or above.
func (c *content) keep(p []byte) error {
	out := &c.w.out
	to, err := out.window(len(p))
	if err != nil {
		return err
	}
	if &to[0] != &p[0] {
		copy(to, p)
	}
	return out.commit(len(p)>>blockBits, c.add)
}

// isZero looks at the start first, where most data differs.
func isZero(p []byte) bool {
	return bytes.Equal(p[:64], zeros[:64]) && bytes.Equal(p, zeros[:len(p)])
}

func (c *content) add(r run) {
	if c.extents == nil {
		c.extents = c.one[:0]
	}
	c.extents = appendExtent(c.extents, extent{c.logical, r.start, r.n})
	c.w.stored += int64(r.n)
	c.logical += r.n
}

// source reads data and holes alike.
type source struct {
	r      io.Reader
	sparse Sparse
	// zeros still to come before r is read again.
	zeros int64
}

func (s *source) fill(p []byte) error {
	for len(p) > 0 {
		n, err := s.read(p)
		p = p[n:]
		if errors.Is(err, io.EOF) && len(p) > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

func (s *source) read(p []byte) (int, error) {
	if s.sparse != nil && s.zeros == 0 {
		var err error
		if s.zeros, err = s.sparse.Hole(); err != nil {
			return 0, err
		}
	}
	if s.zeros == 0 {
		return s.r.Read(p)
	}
	n := int(min(s.zeros, int64(len(p))))
	clear(p[:n])
	s.zeros -= int64(n)
	return n, nil
}

// Free turns content that Append stored into free space, such as a file that an
// upper layer replaces.
func (w *Writer) Free(data, size int64) error {
	if err := w.out.sync(); err != nil {
		return err
	}
	for _, e := range w.extents(data, size) {
		w.free = append(w.free, run{e.start, e.n})
		w.stored -= int64(e.n)
		if err := w.punch(int64(e.start), int64(e.n)); err != nil {
			return err
		}
	}
	return nil
}

// punch makes blocks zero again, as unused ones are.
func (w *Writer) punch(start, n int64) error {
	if start+n > w.out.limit {
		return nil
	}
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	err := unix.Fallocate(int(w.out.f.Fd()), mode, start<<blockBits, n<<blockBits)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return os.NewSyscallError("fallocate", err)
	}
	for ; n > 0; start, n = start+windowBlocks, n-windowBlocks {
		if err := w.out.writeAt(zeros[:min(n, windowBlocks)<<blockBits], start); err != nil {
			return err
		}
	}
	return nil
}
