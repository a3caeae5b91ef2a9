package runtime

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds of an archive: bytes as it comes and unpacked, and names in it.
const (
	maxArchive  = 512 << 20
	maxUnpacked = 1 << 30
	maxEntries  = 4096
	maxWindow   = 128 << 20
)

// extract takes runsc, its shim and gvisor-bin/ out of a release's archive. What else
// is in it stays there; what isn't a plain file is refused.
func extract(r io.Reader, dir string) error {
	plain, err := decompress(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	left := int64(maxUnpacked)
	t := tar.NewReader(io.LimitReader(plain, maxUnpacked))
	found := false
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the archive is damaged: %w", err)
		}
		if n == maxEntries {
			return fmt.Errorf("the archive has more than %d files", maxEntries)
		}
		name, err := wantedName(h)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := writeProgram(to, t, left); err != nil {
			return err
		}
		left -= h.Size
		found = found || name == "runsc"
	}
	if !found {
		return errors.New("there is no runsc in the archive")
	}
	return nil
}

// wantedName is where an entry belongs, "" for nowhere.
func wantedName(h *tar.Header) (string, error) {
	name := strings.TrimPrefix(h.Name, "./")
	if h.Typeflag == tar.TypeDir || strings.HasSuffix(name, "/") {
		return "", nil
	}
	dir, file := path.Split(name)
	if name != "runsc" && name != "containerd-shim-runsc-v1" && dir != helpers+"/" {
		return "", nil
	}
	if h.Typeflag != tar.TypeReg || file == "" || file == "." || file == ".." {
		return "", fmt.Errorf("%.60q in the archive is no plain file", h.Name)
	}
	return name, nil
}

// decompress tells the compression by how the archive begins.
func decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	magic, _ := b.Peek(4) // a shorter one matches nothing
	switch {
	case strings.HasPrefix(string(magic), "\x28\xb5\x2f\xfd"):
		d, err := zstd.NewReader(b, zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case strings.HasPrefix(string(magic), "BZh"):
		return io.NopCloser(bzip2.NewReader(b)), nil
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		return gzip.NewReader(b)
	}
	return nil, errors.New("it is neither zstd, bzip2 nor gzip")
}
