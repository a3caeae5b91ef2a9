package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// block is what a tar consists of; two of zeros end it.
const (
	block = 512
	end   = 2 * block
)

// header is a member's header, always the same for the same name and size: an
// ordinary file of root's, of no time, that everyone may read and programs' may run.
func header(name string, size int64) ([]byte, error) {
	mode := int64(0o644)
	if strings.HasPrefix(name, "bin/") {
		mode = 0o755
	}
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, Format: tar.FormatUSTAR,
	})
	return b.Bytes(), err
}

// padding is how many zeros follow size bytes.
func padding(size int64) int64 { return -size & (block - 1) }

// framed is what a member takes in the file.
func framed(size int64) int64 { return block + size + padding(size) }

// expect reads what must be the header of a member.
func expect(r io.Reader, name string, size int64) error {
	want, err := header(name, size)
	if err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil {
		return cut(err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("where %s should begin there is something else", name)
	}
	return nil
}

// sizeIn is the size that a header gives, for a member of at most limit bytes that the
// manifest can't tell. It is right when the header as a whole is what was expected.
func sizeIn(head []byte, limit int64) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimRight(head[124:136], "\x00 ")), 8, 64)
	if err != nil || n < 0 || n > limit {
		return -1
	}
	return n
}

// zeros reads n bytes that must be zero.
func zeros(r io.Reader, n int64) error {
	got := make([]byte, n)
	if _, err := io.ReadFull(r, got); err != nil {
		return cut(err)
	}
	if len(bytes.Trim(got, "\x00")) > 0 {
		return errors.New("there is something between two members")
	}
	return nil
}

func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // of io.ReadFull itself
		return errors.New("the file is cut short")
	}
	return err
}
