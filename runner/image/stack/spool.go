package stack

import (
	"errors"
	"io"
	"os"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/flatten"
)

// Spool is a Sink that keeps a layer's contents in a file, each at the start of a
// block, zeros as holes.
type Spool struct {
	// Create makes the file when there is something to keep.
	Create func() (*os.File, error)
	Budget *flatten.Budget
	// File is nil when nothing was kept.
	File *os.File
	data *erofs.Data
}

// Append implements flatten.Data.
func (s *Spool) Append(r io.Reader, size int64) (int64, error) {
	if s.File == nil {
		f, err := s.Create()
		if err != nil {
			return 0, err
		}
		s.File, s.data = f, erofs.NewData(f, 0, s.Budget)
	}
	return s.data.Append(r, size)
}

// Release implements Sink. The file ends with the last content, also with a hole.
func (s *Spool) Release() error {
	if s.File == nil {
		return nil
	}
	return errors.Join(s.data.Release(), s.File.Truncate(s.data.Offset()))
}

// Section reads stored content.
func (s *Spool) Section(off, size int64) io.Reader { return io.NewSectionReader(s.File, off, size) }

// Close closes the file.
func (s *Spool) Close() error {
	if s.File == nil {
		return nil
	}
	return s.File.Close()
}
