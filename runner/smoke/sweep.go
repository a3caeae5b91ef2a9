package smoke

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// dirPrefix begins the names of directories of tests.
const dirPrefix = "quavon-smoke-"

// youngest is how old a directory must be to be swept: one that was just made isn't locked
// yet.
const youngest = time.Minute

// ownDir makes a test's directory, which is this process's while release was not called,
// after it has removed those of tests whose process was killed.
func ownDir(parent string) (dir string, release func() error, err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent)
	if dir, err = os.MkdirTemp(parent, dirPrefix); err != nil {
		return "", nil, err
	}
	f, err := hold(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), f.Close()) }, nil
}

// hold opens a directory of this user's, and locks it unless another process has.
func hold(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir) //nolint:gosec // a descriptor
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) != os.Geteuid() {
		return nil, errors.Join(err, os.ErrPermission, f.Close())
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes what nobody holds any more. What can't be removed is left.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*")) // the pattern is right
	for _, dir := range dirs {
		fi, err := os.Lstat(dir)
		if err != nil || time.Since(fi.ModTime()) < youngest {
			continue
		}
		if f, err := hold(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = f.Close()
		}
	}
}
