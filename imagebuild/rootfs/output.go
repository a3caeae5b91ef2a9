package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/renameio/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
)

// output is a file without a name until it is complete, so that nothing is left
// behind however the process ends.
type output struct {
	*os.File
	path string
	// temp is the name it has where the file system has no nameless files.
	temp string
}

func newOutput(path string) (*output, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return nil, fault.New(path+" is no regular file", "name a file to write the file system to")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // what a symbolic link leads to is replaced, not the link
	}
	o := &output{path: path}
	if o.File, o.temp, err = nameless(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return o, nil
}

// nameless makes a file in dir, with a name only where it can't be without.
func nameless(dir string) (f *os.File, temp string, err error) {
	f, err = os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o644)
	if err == nil || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return f, "", err
	}
	if f, err = os.CreateTemp(dir, ".quavon-*"); err != nil {
		return nil, "", err
	}
	return f, f.Name(), nil
}

// spool makes a file beside the output that is gone when it is closed.
func (o *output) spool() (*os.File, error) {
	f, temp, err := nameless(filepath.Dir(o.path))
	if err == nil && temp != "" {
		err = os.Remove(temp)
	}
	return f, err
}

// publish makes the file durable, reads it back for its digest and gives it its
// name.
func (o *output) publish(ctx context.Context, a *lock.Artefact) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(o.Sync)
	group.Go(func() (err error) {
		a.SHA256, err = hash(ctx, o.File)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(o.Fd()), &st); err != nil {
		return err
	}
	a.Size, a.Allocated = st.Size, st.Blocks*512
	if err := o.name(); err != nil {
		return err
	}
	if err := os.Rename(o.temp, o.path); err != nil {
		return err
	}
	o.temp = ""
	return disk.SyncDir(filepath.Dir(o.path))
}

// name gives the file a name of its own beside the one it shall have.
func (o *output) name() error {
	if o.temp != "" {
		return o.Chmod(0o644)
	}
	self := "/proc/self/fd/" + strconv.Itoa(int(o.Fd()))
	for n := range 100 {
		temp := fmt.Sprintf("%s/.quavon-%d-%d", filepath.Dir(o.path), os.Getpid(), n)
		err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, temp, unix.AT_SYMLINK_FOLLOW)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err == nil {
			o.temp = temp
		}
		return os.NewSyscallError("linkat", err)
	}
	return &fs.PathError{Op: "link", Path: o.path, Err: fs.ErrExist}
}

// close lets go of the file; it is gone unless it was published.
func (o *output) close() error {
	var err error
	if o.temp != "" {
		err = os.Remove(o.temp)
	}
	return errors.Join(err, o.Close())
}

// writeFile replaces a small file.
func writeFile(path string, raw []byte) error { return renameio.WriteFile(path, raw, 0o600) }
