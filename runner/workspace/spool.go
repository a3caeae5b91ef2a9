package workspace

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// spool keeps content that came from a guest in one file without a name, which
// is gone when the process is.
type spool struct {
	f   *os.File
	end int64
	buf []byte
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close() // the name is the trouble, not the file
		return nil, err
	}
	return &spool{f: f, buf: make([]byte, 256<<10)}, nil
}

// Write appends; a blob is then cut out of what was written.
func (s *spool) Write(p []byte) (int, error) {
	n, err := s.f.WriteAt(p, s.end)
	s.end += int64(n)
	return n, err
}

// add appends exactly n bytes of r.
func (s *spool) add(r io.Reader, n int64) (blob, error) {
	start := s.end
	got, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{io.LimitReader(r, n)}, s.buf)
	if err == nil && got < n {
		err = fmt.Errorf("ended after %d of %d bytes", got, n)
	}
	return s.since(start), err
}

// since is what was written from start on.
func (s *spool) since(start int64) blob { return blob{s.f, start, s.end - start} }

func (s *spool) Close() error { return s.f.Close() }

// blob is content that can be read more than once; the zero blob is empty.
type blob struct {
	at   io.ReaderAt
	off  int64
	size int64
}

func textBlob(s string) blob { return blob{strings.NewReader(s), 0, int64(len(s))} }

func (b blob) reader() io.Reader {
	if b.at == nil {
		return strings.NewReader("")
	}
	return io.NewSectionReader(b.at, b.off, b.size)
}

// text reads all of it: for links' targets and small files.
func (b blob) text() (string, error) {
	var s strings.Builder
	s.Grow(int(b.size))
	_, err := io.Copy(&s, b.reader())
	return s.String(), err
}
