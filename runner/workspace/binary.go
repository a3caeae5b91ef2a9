package workspace

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
)

// writeBinary writes git's binary form of a change: the new content whole, and
// the old, so that the patch can also be reversed.
func writeBinary(w *bufio.Writer, before, after blob) error {
	fmt.Fprint(w, "GIT binary patch\n")
	if err := writeLiteral(w, after); err != nil {
		return err
	}
	return writeLiteral(w, before)
}

func writeLiteral(w *bufio.Writer, b blob) error {
	fmt.Fprintf(w, "literal %d\n", b.size)
	enc := &base85{w: w}
	z := zlib.NewWriter(enc)
	if _, err := io.Copy(z, b.reader()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	enc.flush()
	return w.WriteByte('\n')
}

// base85 writes lines of git's base 85: a letter for the number of bytes, then
// five digits for each four of them. Errors are the bufio.Writer's.
type base85 struct {
	w    *bufio.Writer
	line [lineBytes]byte
	n    int
}

const (
	lineBytes = 52
	digits85  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
)

func (e *base85) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(e.line[e.n:], p)
		p = p[n:]
		if e.n += n; e.n == lineBytes {
			e.flush()
		}
	}
	return total, nil
}

func (e *base85) flush() {
	if e.n == 0 {
		return
	}
	clear(e.line[e.n:])
	length := byte('A' + e.n - 1)
	if e.n > 26 {
		length = byte('a' + e.n - 27)
	}
	_ = e.w.WriteByte(length)
	for i := 0; i < e.n; i += 4 {
		v := binary.BigEndian.Uint32(e.line[i:])
		var digits [5]byte
		for k := 4; k >= 0; k-- {
			digits[k] = digits85[v%85]
			v /= 85
		}
		_, _ = e.w.Write(digits[:])
	}
	_ = e.w.WriteByte('\n')
	e.n = 0
}
