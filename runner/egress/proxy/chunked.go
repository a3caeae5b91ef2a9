package proxy

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxChunkLine bounds the line before a chunk.
const maxChunkLine = 32

// copyBody moves a request's body, and not a byte of what follows it.
func copyBody(w io.Writer, h *head, in *input) error {
	if h.chunked() {
		return copyChunked(w, bufio.NewReaderSize(in, 16<<10))
	}
	if n := h.length(); n > 0 {
		_, err := io.CopyN(w, in, n)
		return err
	}
	return nil
}

// copyChunked reads chunks strictly and writes them anew: without extensions, and
// with no trailer.
func copyChunked(w io.Writer, r *bufio.Reader) error {
	for {
		size, err := chunkSize(r)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if _, err := fmt.Fprintf(w, "%x\r\n", size); err != nil {
			return err
		}
		if _, err := io.CopyN(w, r, size); err != nil {
			return err
		}
		if err := expect(r, "a chunk doesn't end where it says"); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\r\n"); err != nil {
			return err
		}
	}
	if err := expect(r, "a trailer behind the last chunk"); err != nil {
		return err
	}
	_, err := io.WriteString(w, "0\r\n\r\n")
	return err
}

// chunkSize reads the line before a chunk.
func chunkSize(r *bufio.Reader) (int64, error) {
	var line []byte
	for len(line) < 2 || line[len(line)-2] != '\r' || line[len(line)-1] != '\n' {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if line = append(line, c); len(line) > maxChunkLine {
			return 0, bad("a chunk size that is too long, or has extensions")
		}
	}
	digits := string(line[:len(line)-2])
	if strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return 0, bad("a chunk size that is no number")
	}
	n, err := strconv.ParseInt(digits, 16, 64)
	if err != nil {
		return 0, bad("a chunk size that is no number")
	}
	return n, nil
}

// expect reads CR LF.
func expect(r *bufio.Reader, otherwise string) error {
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return err
	}
	if string(end[:]) != "\r\n" {
		return bad(otherwise)
	}
	return nil
}
