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

// WriteFile has write fill a file that takes path's place when it is whole. What
// isn't a regular file, such as /dev/null, is written to as it is.
func WriteFile(path string, write func(io.Writer) error) error {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return f.CloseAtomicallyReplace()
}
