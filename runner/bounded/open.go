package bounded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is what stands in the place of a regular file.
var ErrNotRegular = errors.New("no regular file")

// Open opens a regular file, or what a link leads to, for reading. Its size is its
// reader's concern.
func Open(path string) (*os.File, error) {
	f, err := open(path)
	return regular(f, err)
}

// OpenIn is Open for a file in root.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	return regular(f, err)
}

func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: fmt.Errorf("it is %w but %s", ErrNotRegular, kind(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device"
}
