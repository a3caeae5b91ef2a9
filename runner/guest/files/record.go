package files

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
)

// record writes one change. Of a directory, t is nil.
func (d *differ) record(name string, kind job.ChangeKind, c change, t *layers) error {
	fi := c.now
	if fi == nil {
		fi = c.old
	}
	h := header(name, fi)
	h.Format = tar.FormatPAX
	h.PAXRecords = map[string]string{agent.PAXChange: string(kind)}
	if c.old != nil {
		h.PAXRecords[agent.PAXOldMode] = strconv.FormatUint(uint64(gitMode(c.old)), 8)
	}
	if t != nil && d.content {
		if err := d.describe(*t, h, c); err != nil {
			return err
		}
		if kind != job.Deleted && h.Typeflag == tar.TypeReg {
			return d.file(t.upper, c.now.Name(), h)
		}
	}
	if err := d.meter.take(name, 0); err != nil {
		return err
	}
	return d.tw.WriteHeader(h)
}

// describe adds the link's target, and what the lower layer has.
func (d *differ) describe(t layers, h *tar.Header, c change) (err error) {
	if c.old != nil {
		size, sum, err := d.digest(t.lower, c.old)
		if err != nil {
			return err
		}
		h.PAXRecords[agent.PAXOldSize] = strconv.FormatInt(size, 10)
		h.PAXRecords[agent.PAXOldSHA256] = hex.EncodeToString(sum)
	}
	if c.now != nil && h.Typeflag == tar.TypeSymlink {
		h.Linkname, err = t.upper.Readlink(c.now.Name())
	}
	return err
}

// digest is the size and SHA-256 of a file's content or a link's target.
func (d *differ) digest(root *os.Root, fi fs.FileInfo) (int64, []byte, error) {
	sum := sha256.New()
	if fi.Mode()&fs.ModeSymlink != 0 {
		link, err := root.Readlink(fi.Name())
		sum.Write([]byte(link))
		return int64(len(link)), sum.Sum(nil), err
	}
	f, fi, err := openRegular(root, fi.Name())
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	err = copyExactly(sum, f, fi.Size(), d.buf)
	return fi.Size(), sum.Sum(nil), err
}

// same says whether both layers hold the same, as git sees it.
func (d *differ) same(t layers, c change) (bool, error) {
	if gitMode(c.old) != gitMode(c.now) {
		return false, nil
	}
	if c.old.Mode()&fs.ModeSymlink != 0 {
		a, errA := t.lower.Readlink(c.old.Name())
		b, errB := t.upper.Readlink(c.now.Name())
		return a == b, errors.Join(errA, errB)
	}
	if c.old.Size() != c.now.Size() {
		return false, nil
	}
	a, _, err := openRegular(t.lower, c.old.Name())
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, _, err := openRegular(t.upper, c.now.Name())
	if err != nil {
		return false, err
	}
	defer b.Close()
	return equal(a, b, d.buf)
}

// equal compares two readers to their ends, with half of buf for each.
func equal(a, b io.Reader, buf []byte) (bool, error) {
	bufA, bufB := buf[:len(buf)/2], buf[len(buf)/2:]
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		if !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if ended(errA) || ended(errB) {
			return ended(errA) && ended(errB), nil
		}
		if err := errors.Join(errA, errB); err != nil {
			return false, err
		}
	}
}

func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// gitMode is the mode git gives a file, link or directory.
func gitMode(fi fs.FileInfo) uint32 {
	switch {
	case fi.IsDir():
		return 0o040000
	case fi.Mode()&fs.ModeSymlink != 0:
		return 0o120000
	case fi.Mode()&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}
