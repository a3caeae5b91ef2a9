package ext4

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// fileRange reads a part of a file and knows its holes.
type fileRange struct {
	f       *os.File
	at, end int64
	// data is how far there is no hole.
	data int64
}

// FileRange is a Sparse reader of size bytes of f from off, for content that is
// kept in a file with holes. It moves the file's own position.
func FileRange(f *os.File, off, size int64) Sparse {
	return &fileRange{f: f, at: off, end: off + size}
}

// Read implements io.Reader.
func (r *fileRange) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), r.end-r.at)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	n, err := r.f.ReadAt(p, r.at)
	r.at += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Hole implements Sparse.
func (r *fileRange) Hole() (int64, error) {
	if r.at < r.data || r.at == r.end {
		return 0, nil
	}
	data, err := r.f.Seek(r.at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		data, err = r.end, r.reaches()
	}
	if err != nil {
		return 0, err
	}
	data = min(data, r.end)
	n := data - r.at
	if n == 0 {
		r.data, err = r.f.Seek(r.at, unix.SEEK_HOLE)
	}
	r.at = data
	return n, err
}

// reaches says whether the file has all of the range.
func (r *fileRange) reaches() error {
	st, err := r.f.Stat()
	if err == nil && st.Size() < r.end {
		err = io.ErrUnexpectedEOF
	}
	return err
}
