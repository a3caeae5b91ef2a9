package runtime

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
)

// staging is where a version is put together, discard where a broken one of the same
// name goes.
func staging(dir string) string { return dir + ".new" }
func discard(dir string) string { return dir + ".old" }

// unpack puts the version's directory there in one step.
func (s *source) unpack(ctx context.Context, dir string) error {
	tmp := staging(dir)
	err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(discard(dir)))
	if err == nil {
		err = os.Mkdir(tmp, 0o755)
	}
	if err != nil {
		return err
	}
	if s.archive {
		err = s.fromArchive(ctx, tmp)
	} else {
		err = s.fromProgram(ctx, tmp)
	}
	if err == nil {
		err = syncTree(tmp)
	}
	if err == nil {
		err = put(tmp, dir)
	}
	if err != nil {
		return errors.Join(fault.Wrap(err, "install gVisor from "+s.shown(), fault.Hint(err)), os.RemoveAll(tmp))
	}
	return disk.SyncDir(filepath.Dir(dir))
}

// put renames a version into its place. What is there is of no use, else nothing would
// be unpacked.
func put(tmp, dir string) error {
	if err := os.Rename(dir, discard(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return os.RemoveAll(discard(dir))
}

// fromProgram copies runsc and what is beside it of gVisor's.
func (s *source) fromProgram(ctx context.Context, dir string) error {
	real, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return err
	}
	if err := copyProgram(ctx, real, filepath.Join(dir, "runsc")); err != nil {
		return err
	}
	from := filepath.Join(filepath.Dir(real), helpers)
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, helpers), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyProgram(ctx, filepath.Join(from, e.Name()), filepath.Join(dir, helpers, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// fromArchive takes a copy of the archive while it is compared with its digest, and
// only then looks into it.
func (s *source) fromArchive(ctx context.Context, dir string) error {
	in, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	copied, err := os.OpenFile(filepath.Join(dir, ".archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer copied.Close()
	h := sha512.New()
	from := &budget{ctx: ctx, r: in, left: usual.archive, most: usual.archive}
	if _, err := io.Copy(io.MultiWriter(copied, h), from); err != nil {
		return err
	}
	if got := h.Sum(nil); !bytes.Equal(got, decoded(s.sha512)) {
		return fault.New(fmt.Sprintf("its sha512 is %x… instead of %s…", got[:8], s.sha512[:16]),
			"fetch the archive again, and take the digest from gVisor's release, not from where the archive came from")
	}
	if _, err := copied.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := usual.extract(ctx, copied, dir); err != nil {
		return err
	}
	if err := os.Remove(copied.Name()); err != nil {
		return err
	}
	_, err = checkProgram(ctx, filepath.Join(dir, "runsc"))
	return err
}

func decoded(s string) []byte {
	b, _ := hex.DecodeString(s) // its form was checked
	return b
}

func (s *source) open(ctx context.Context) (io.ReadCloser, error) {
	if !s.url {
		return bounded.Open(s.path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.path, nil)
	if err != nil {
		return nil, errors.New("it is no URL")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // without the URL, which may have a password
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // there is nothing to read
		return nil, fault.New(resp.Status, "name a release by its date: since August 2026 each has one archive, gvisor.tar.zstd")
	}
	return resp.Body, nil
}
