package runtime

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// limits bound an archive: bytes as it comes and unpacked, names in it, and what its
// decompression may take of memory.
type limits struct {
	archive, unpacked int64
	entries           int
	window            uint64
}

// usual is several times what a release has.
var usual = limits{archive: 512 << 20, unpacked: 1 << 30, entries: 4096, window: 128 << 20}

// extract takes runsc, its shim and gvisor-bin/ out of a release's archive. What else
// is in it stays there. Nothing is written but plain files of these names, each once.
func (l limits) extract(ctx context.Context, r io.Reader, dir string) error {
	plain, err := l.decompress(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	whole := &budget{ctx: ctx, r: plain, left: l.unpacked, most: l.unpacked}
	t := tar.NewReader(whole)
	left := l.unpacked
	seen := map[string]bool{}
	for n := 0; ; n++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the archive is damaged: %w", err)
		}
		if n == l.entries {
			return fmt.Errorf("the archive has more than %d files", l.entries)
		}
		name, err := wantedName(h)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if seen[name] {
			return fmt.Errorf("%q is in the archive twice", name)
		}
		seen[name] = true
		in := &budget{ctx: ctx, r: t, left: left, most: l.unpacked}
		if err := extractOne(filepath.Join(dir, filepath.FromSlash(name)), in); err != nil {
			return err
		}
		left -= h.Size // of a sparse file too it is the size unpacked
	}
	// What is behind the last file says whether all of it is there.
	if _, err := io.Copy(io.Discard, whole); err != nil {
		return fmt.Errorf("the archive is damaged: %w", err)
	}
	if !seen["runsc"] {
		return errors.New("there is no runsc in the archive")
	}
	return nil
}

func extractOne(to string, in io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return writeProgram(to, in)
}

// helperName is a file in gvisor-bin/, of letters that do no harm on a terminal.
var helperName = regexp.MustCompile(`^` + helpers + `/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

// wantedName is where an entry belongs, "" for nowhere.
func wantedName(h *tar.Header) (string, error) {
	name := strings.TrimPrefix(h.Name, "./")
	if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("%.60q in the archive leads out of it", h.Name)
	}
	if h.Typeflag == tar.TypeDir {
		return "", nil
	}
	inside := name == helpers || strings.HasPrefix(name, helpers+"/")
	if name != "runsc" && name != "containerd-shim-runsc-v1" && !inside {
		return "", nil
	}
	if h.Typeflag != tar.TypeReg || inside && !helperName.MatchString(name) {
		return "", fmt.Errorf("%.60q in the archive is no plain file", h.Name)
	}
	return name, nil
}

// decompress tells the compression by how the archive begins.
func (l limits) decompress(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	magic, _ := b.Peek(4) // a shorter one matches nothing
	switch {
	case strings.HasPrefix(string(magic), "\x28\xb5\x2f\xfd"):
		d, err := zstd.NewReader(b, zstd.WithDecoderMaxMemory(l.window), zstd.WithDecoderMaxWindow(l.window))
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

// budget reads no further than left, and no longer than ctx lasts.
type budget struct {
	ctx        context.Context
	r          io.Reader
	left, most int64
}

func (b *budget) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("it has more than %d bytes", b.most)
	}
	return n, err
}
