package workspace

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// entryOverhead is more than the headers of one entry take in a stream, in bytes.
const entryOverhead = 24 << 10

// tarReader reads a bounded tar stream that must have an end mark: archive/tar
// takes one that was cut between two entries for complete.
type tarReader struct {
	*tar.Reader
	bounded io.LimitedReader
	from    io.Reader
	cut     bool
}

func newTarReader(r io.Reader, lim Limits) *tarReader {
	t := &tarReader{from: r}
	t.bounded = io.LimitedReader{R: readerFunc(t.read), N: lim.Bytes + int64(lim.Entries+1)*entryOverhead}
	t.Reader = tar.NewReader(&t.bounded)
	return t
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// read notes when the stream itself ends. At the end mark archive/tar reads no
// further, so that a whole stream's end is never seen.
func (t *tarReader) read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	t.cut = t.cut || n == 0 && errors.Is(err, io.EOF)
	return n, err
}

// next is the next header, or io.EOF after the end mark.
func (t *tarReader) next() (*tar.Header, error) {
	h, err := t.Next()
	if errors.Is(err, io.EOF) && (t.cut || t.bounded.N <= 0) {
		err = io.ErrUnexpectedEOF
	}
	return h, err
}

// refuse reports a stream that an honest agent does not send, unless it is the
// host's own files that failed: the stream's errors are never about a path.
func refuse(what string, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return fault.Wrap(err, what+" could not be kept", "make room where the error says; nothing was written")
	}
	return fault.Wrap(err, what+" was refused", "the sandbox sent what it should not: don't trust this job's output; nothing was written").
		WithCode(string(job.ReasonRejected))
}

func tooMuch(unit string) error {
	return fault.New("the job changed more "+unit+" than are taken back",
		"take fewer files back: --collect GLOB takes only some, and what a job need not keep can go to /tmp")
}
