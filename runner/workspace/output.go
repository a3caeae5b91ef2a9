package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
)

// CheckOutput refuses a path to write to, or to keep a cache in, that leads
// through a symbolic link inside the workspace: an earlier job may have made it
// (WriteBack keeps links), and it may point at any file of the caller's. Links
// outside of the workspace are the caller's own.
func CheckOutput(path, workspace string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// The part above the workspace may be spelled through links of the caller's.
	for _, root := range spellings(workspace) {
		rel, ok := strings.CutPrefix(abs, root+"/")
		if !ok {
			continue
		}
		at := root
		for part := range strings.SplitSeq(rel, "/") {
			at = filepath.Join(at, part)
			if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
				return fault.New(fmt.Sprintf("%s leads through the symbolic link %s in the workspace", quotePath(path), quotePath(at)),
					"a job may have made that link: look where it points, and name a path without it")
			}
		}
	}
	return nil
}

// spellings are the workspace's path as given and as resolved.
func spellings(workspace string) []string {
	abs, err := filepath.Abs(workspace)
	if err != nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil || real == abs {
		return []string{abs}
	}
	return []string{abs, real}
}

// CheckWritable refuses a path that WriteFile could not write: to be told so when a job
// has run for an hour is too late.
func CheckWritable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err == nil && fi.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: unix.EISDIR}
	case err == nil && !fi.Mode().IsRegular():
		return mayWrite(path, unix.W_OK)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return mayWrite(filepath.Dir(path), unix.W_OK|unix.X_OK)
}

// CheckOutDir refuses a path that can't become a directory to write files to.
func CheckOutDir(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err == nil && !fi.IsDir():
		return &fs.PathError{Op: "write to", Path: path, Err: unix.ENOTDIR}
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path:
		return CheckOutDir(filepath.Dir(path))
	case err != nil:
		return err
	}
	return mayWrite(path, unix.W_OK|unix.X_OK)
}

func mayWrite(path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return &fs.PathError{Op: "write to", Path: path, Err: err}
	}
	return nil
}

// WriteFile has write fill a file that takes path's place when it is whole. What
// isn't a regular file, such as /dev/null, is written to as it is. A pipe must have its
// reader by then: one that has none, such as a job may have made, would be waited for
// without end.
func WriteFile(path string, write func(io.Writer) error) error {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		flags := os.O_WRONLY
		if fi.Mode()&fs.ModeNamedPipe != 0 {
			flags |= unix.O_NONBLOCK
		}
		f, err := os.OpenFile(path, flags, 0)
		if errors.Is(err, unix.ENXIO) {
			return &fs.PathError{Op: "write", Path: path, Err: errors.New("nobody reads this pipe")}
		}
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) { // it has the name of a temporary file
		return &fs.PathError{Op: "write", Path: path, Err: pathErr.Err}
	}
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return f.CloseAtomicallyReplace()
}
