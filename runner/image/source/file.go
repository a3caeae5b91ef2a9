package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// File finds an image in an OCI layout, a directory or a tar, or in a
// docker-archive. Scratch is a directory for the plain form of a compressed tar.
func File(ctx context.Context, path string, s Select, scratch string) (*Image, error) {
	img, err := file(ctx, path, s, scratch)
	if err != nil {
		return nil, fault.Wrap(err, "can't import "+path,
			cmp.Or(fault.Hint(err), "name an OCI layout or a docker-archive, as `docker save` and `skopeo copy` make them"))
	}
	if img.Origin, err = filepath.Abs(path); err != nil {
		return nil, errors.Join(err, img.Close())
	}
	return img, nil
}

func file(ctx context.Context, path string, s Select, scratch string) (*Image, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return dir(ctx, path, s)
	}
	f, err := bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		return nil, fault.Wrap(err, "read the archive", "write it to a file first, and name that")
	}
	if err != nil {
		return nil, err
	}
	plain, err := unpacked(f, scratch)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return tarFile(ctx, plain, s)
}

// tarFile takes f over.
func tarFile(ctx context.Context, f *os.File, s Select) (*Image, error) {
	a, err := openArchive(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	img, err := a.image(ctx, s)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	img.close = f.Close
	return img, nil
}

func dir(ctx context.Context, path string, s Select) (*Image, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	img, err := layout{dirFiles{root}}.image(ctx, s)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	img.close = root.Close
	return img, nil
}

// unpacked returns f when it is a plain tar, else its plain form in a file
// without a name.
func unpacked(f *os.File, scratch string) (*os.File, error) {
	head := make([]byte, 4)
	if _, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, err
	}
	var (
		r   io.Reader
		err error
	)
	switch {
	case string(head[:2]) == "\x1f\x8b":
		r, err = gzip.NewReader(f)
	case string(head) == "\x28\xb5\x2f\xfd":
		r, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	default:
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	plain, err := spool(r, scratch)
	if err != nil {
		return nil, err
	}
	return plain, f.Close()
}

// maxSpool bounds an archive that has to be kept while it is imported.
const maxSpool = 128 << 30

// spool keeps r in a file without a name.
func spool(r io.Reader, scratch string) (*os.File, error) {
	f, err := nameless(scratch)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(f, io.LimitReader(r, maxSpool+1))
	if err == nil && n > maxSpool {
		err = fmt.Errorf("the archive has more than %d bytes", int64(maxSpool))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// nameless makes a file that is gone when it is closed, however that happens.
func nameless(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err == nil || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return f, err
	}
	if f, err = os.CreateTemp(dir, "archive-*"); err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
