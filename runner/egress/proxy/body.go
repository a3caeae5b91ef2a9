package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// filter is a writer that may hold something back until Close.
type filter interface {
	io.Writer
	Close() error
}

// copyFiltered moves a body through a filter. Its chunks are made anew, as the filter
// passes them on. to makes the filter.
func copyFiltered(w io.Writer, h *head, in *input, untilEnd bool, to func(io.Writer) filter) error {
	switch n := h.length(); {
	case h.chunked():
		out := &chunkWriter{w}
		f := to(out)
		if err := copyChunks(f, bufio.NewReaderSize(in, 16<<10)); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		_, err := io.WriteString(w, "0\r\n\r\n")
		return err
	case n > 0:
		f := to(w)
		if _, err := io.CopyN(f, in, n); err != nil {
			return err
		}
		return f.Close()
	case n < 0 && untilEnd:
		f := to(w)
		if _, err := io.Copy(f, in); err != nil {
			return err
		}
		return f.Close()
	}
	return nil
}

// chunkWriter writes each portion as a chunk.
type chunkWriter struct{ w io.Writer }

// Write implements io.Writer.
func (c *chunkWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // it would be the last
	}
	if _, err := fmt.Fprintf(c.w, "%x\r\n", len(p)); err != nil {
		return 0, err
	}
	if _, err := c.w.Write(p); err != nil {
		return 0, err
	}
	_, err := io.WriteString(c.w, "\r\n")
	return len(p), err
}

// copyChunks moves the content of chunks, which are read strictly, as it comes.
func copyChunks(w io.Writer, r *bufio.Reader) error {
	for {
		size, err := chunkSize(r)
		if err != nil {
			return err
		}
		if size == 0 {
			return expect(r, "a trailer behind the last chunk")
		}
		if _, err := io.CopyN(w, r, size); err != nil {
			return unexpected(err)
		}
		if err := expect(r, "a chunk doesn't end where it says"); err != nil {
			return err
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
