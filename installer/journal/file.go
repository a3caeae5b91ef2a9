package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/disk"
)

// MaxFile bounds what is written or kept of one file, in bytes.
const MaxFile = 64 << 20

// look is what there is at a path.
type look struct {
	Existed  bool        `json:"existed"`
	Mode     fs.FileMode `json:"mode,omitempty"`
	UID      uint32      `json:"uid,omitempty"`
	GID      uint32      `json:"gid,omitempty"`
	Contents string      `json:"contents,omitempty"` // sha256, "" for no file

	data []byte
}

// read looks at a regular file; links in path have been followed.
func read(path string) (l look, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return l, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return l, fmt.Errorf("%s is no regular file", path)
	}
	l = look{Existed: true, Mode: info.Mode().Perm(), UID: st.Uid, GID: st.Gid}
	if l.data, err = bounded.ReadAll(f, MaxFile); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	l.Contents = digest(l.data)
	return l, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// resolve follows links, so that a linked file stays linked. What isn't there yet is
// where its directory is.
func resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is not absolute", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a dangling symbolic link", path)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// temporary is where a file's next content is written: a fixed name, so that what a
// killed process left is found again.
func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".quavon-new")
}

// replace writes a file in one step: it has the old content or the new one, whenever
// the process or the machine stops. The mode, owner and attributes of a file that is
// there are kept. Owners are set as far as the process may.
func (j *Journal) replace(path string, data []byte, as look) error {
	tmp := temporary(path)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	j.point("write " + path)
	err = fill(f, data, path, as)
	if err = errors.Join(err, f.Close()); err == nil {
		j.point("rename " + path)
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error counts
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// Rewrite replaces the content of a file that is there, or of what a link leads to, as a
// step does: in one, with its mode, owner and attributes. It is noted nowhere.
func Rewrite(path string, data []byte) error {
	real, err := resolve(path)
	if err != nil {
		return err
	}
	now, err := read(real)
	if err != nil {
		return err
	}
	if !now.Existed {
		return &fs.PathError{Op: "rewrite", Path: path, Err: fs.ErrNotExist}
	}
	return (&Journal{}).replace(real, data, now)
}

func fill(f *os.File, data []byte, path string, as look) error {
	if _, err := io.Copy(f, bytes.NewReader(data)); err != nil {
		return err
	}
	if err := copyAttributes(path, f); err != nil {
		return err
	}
	if int(as.UID) != os.Geteuid() || int(as.GID) != os.Getegid() {
		if err := f.Chown(int(as.UID), int(as.GID)); err != nil {
			return err
		}
	}
	// Last: a change of owner clears bits.
	if err := f.Chmod(as.Mode); err != nil {
		return err
	}
	return f.Sync()
}

// copyAttributes copies extended attributes, as SELinux labels and access lists are.
func copyAttributes(path string, f *os.File) error {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("attributes of %s: %w", path, err)
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(names[:n], "\x00"), []byte{0}) {
		if len(name) == 0 {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, string(name), value)
		if err == nil {
			err = unix.Fsetxattr(int(f.Fd()), string(name), value[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("attribute %s of %s: %w", name, path, err)
		}
	}
	return nil
}

// remove removes a file that may be gone already.
func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}
