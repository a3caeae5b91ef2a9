package erofs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	bufferSize = 1 << 20
	// holeSize is the shortest run of zeros that is left out of the file.
	holeSize = 64 << 10
)

var zeros [holeSize]byte

// Spender says whether n more bytes may be written.
type Spender interface{ SpendWritten(n int64) error }

// Data appends file contents to a file, each at the start of a block. Runs of
// zeros become holes. It implements flatten.Data.
type Data struct {
	// Flushed is told what was written where, holes included; nil tells nobody.
	Flushed func(at int64, b []byte)
	// Eager starts to write to the disk at once, for a file that will be synced.
	Eager  bool
	f      *os.File
	budget Spender
	// at is where buf[:n] belongs in the file.
	at  int64
	buf []byte
	n   int
}

// NewData appends from offset start, a multiple of BlockSize.
func NewData(f *os.File, start int64, budget Spender) *Data {
	return &Data{f: f, at: start, budget: budget}
}

// Append stores the next size bytes of r.
func (d *Data) Append(r io.Reader, size int64) (int64, error) {
	if d.buf == nil {
		d.buf = make([]byte, bufferSize)
	}
	start := d.at + int64(d.n)
	for size > 0 {
		n := min(size, int64(d.limit()-d.n))
		if _, err := io.ReadFull(r, d.buf[d.n:d.n+int(n)]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		size -= n
		if err := d.advance(int(n)); err != nil {
			return 0, err
		}
	}
	pad := -d.n & (BlockSize - 1)
	clear(d.buf[d.n : d.n+pad])
	return start, d.advance(pad)
}

func (d *Data) advance(n int) error {
	if d.n += n; d.n < d.limit() {
		return nil
	}
	return d.Flush()
}

// limit is how much is buffered, so that flushes end at multiples of bufferSize.
func (d *Data) limit() int { return bufferSize - int(d.at%bufferSize) }

// Flush writes what is still buffered.
func (d *Data) Flush() error {
	for from := 0; from < d.n; {
		zero, end := run(d.buf[from:d.n])
		end += from
		if !zero {
			if err := d.write(d.buf[from:end], d.at+int64(from)); err != nil {
				return err
			}
		}
		from = end
	}
	if d.Flushed != nil && d.n > 0 {
		d.Flushed(d.at, d.buf[:d.n])
	}
	if d.Eager {
		// Only a start: what fails here fails again when the file is synced.
		_ = unix.SyncFileRange(int(d.f.Fd()), d.at, int64(d.n), unix.SYNC_FILE_RANGE_WRITE)
	}
	d.at += int64(d.n)
	d.n = 0
	return nil
}

func (d *Data) write(p []byte, at int64) error {
	if err := d.budget.SpendWritten(int64(len(p))); err != nil {
		return err
	}
	_, err := d.f.WriteAt(p, at)
	return err
}

// run measures the data, or the hole, at the start of b.
func run(b []byte) (zero bool, n int) {
	zero = isHole(b)
	for n < len(b) && isHole(b[n:]) == zero {
		n += min(holeSize, len(b)-n)
	}
	return zero, n
}

func isHole(b []byte) bool {
	return len(b) >= holeSize && bytes.Equal(b[:holeSize], zeros[:])
}

// Offset is where the next Append would store.
func (d *Data) Offset() int64 { return d.at + int64(d.n) }

// Release forgets the buffer; the next Append takes a new one.
func (d *Data) Release() error {
	err := d.Flush()
	d.buf = nil
	return err
}

// Free turns content that Append stored into a hole.
func (d *Data) Free(off, size int64) error {
	size = (size + BlockSize - 1) &^ (BlockSize - 1)
	err := unix.Fallocate(int(d.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return d.zero(off, size)
	}
	if err != nil {
		return fmt.Errorf("free %d bytes at %d of %s: %w", size, off, d.f.Name(), err)
	}
	return nil
}

func (d *Data) zero(off, size int64) error {
	for ; size > 0; off, size = off+holeSize, size-holeSize {
		if _, err := d.f.WriteAt(zeros[:min(size, holeSize)], off); err != nil {
			return err
		}
	}
	return nil
}
