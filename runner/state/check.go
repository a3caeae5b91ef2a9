package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/quavon/quavon/runner/fault"
)

// Check refuses a directory that anyone but root and the caller could change,
// by itself or through a parent. What doesn't exist yet is fine. Directories
// like /tmp are refused too: the sticky bit protects what is there, not the
// name before it is made.
func Check(path string) error {
	real, err := existing(path)
	if err != nil {
		return fault.Wrap(err, "check the state directory", "set "+EnvDir+" to a directory of your own")
	}
	for p := real; ; p = filepath.Dir(p) {
		info, err := os.Lstat(p)
		if err != nil {
			return fault.Wrap(err, "check the state directory", "make "+p+" readable for you")
		}
		if f := weakness(p, info, os.Geteuid()); f != nil {
			return f
		}
		if p == "/" {
			return nil
		}
	}
}

// existing resolves symbolic links in the longest part of path that exists.
func existing(path string) (string, error) {
	for {
		real, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return real, err
		}
		// A dangling link would be followed at creation, past this check.
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "", fmt.Errorf("%s is a dangling symbolic link", path)
		}
		path = filepath.Dir(path)
	}
}

// weakness says why a part of the path can't be trusted, nil when it can. A
// group of the user's own (the same number, as distributions make them) isn't
// others.
func weakness(path string, info fs.FileInfo, euid int) *fault.Error {
	const what = "check the state directory"
	elsewhere := ", or set " + EnvDir + " to a directory of your own"
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir():
		return fault.Wrap(fmt.Errorf("%s is not a directory", path), what, "remove it"+elsewhere)
	case st.Uid != 0 && int(st.Uid) != euid:
		return fault.Wrap(fmt.Errorf("%s belongs to uid %d, not to root or you", path, st.Uid),
			what, "run "+fault.Command("chown", strconv.Itoa(euid), path)+elsewhere)
	case st.Mode&0o002 != 0, st.Mode&0o020 != 0 && (st.Uid == 0 || st.Gid != st.Uid):
		if st.Mode&0o1000 != 0 {
			return fault.Wrap(fmt.Errorf("%s is writable by everyone", path), what,
				"set "+EnvDir+" to a directory of your own, outside of "+path)
		}
		return fault.Wrap(fmt.Errorf("%s is writable by others (mode %04o)", path, st.Mode&0o7777), what,
			"run "+fault.Command("chmod", "go-w", path)+elsewhere)
	}
	return nil
}
