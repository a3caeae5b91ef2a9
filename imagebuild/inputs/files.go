// Package inputs is what an image is built from: the files of a build context and
// the images its Dockerfile names. The same files have the same digest wherever
// they are checked out, and are sent to the builder as the same bytes.
package inputs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

const (
	maxFiles = 200_000
	maxBytes = 4 << 30
)

// Files are the files of a build context, sorted by path.
type Files struct {
	root *os.Root
	list []file
}

// file is one entry. What git doesn't keep isn't kept here either: owners, times,
// and all of the mode but whether it may be executed.
type file struct {
	path string
	mode fs.FileMode
	// link is a symbolic link's target; sum and size are a regular file's.
	link string
	size int64
	sum  [sha256.Size]byte
}

// Open reads the context in dir, without what its .dockerignore leaves out. The
// Dockerfile, a path in dir, is part of it in any case.
func Open(ctx context.Context, dir, dockerfile string) (f *Files, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, "can't read the build context", "correct context: in the declaration")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
		}
	}()
	file, err := bounded.OpenIn(root, dockerfile)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, fault.Wrap(err, "can't read the Dockerfile", "correct dockerfile: in the declaration; it is relative to the context")
	}
	w := &walk{ctx: ctx, Files: &Files{root: root}, always: map[string]bool{dockerfile: true}, left: maxBytes}
	if err := w.readIgnore(dockerfile); err != nil {
		return nil, fault.Wrap(err, "can't read "+filepath.Join(dir, ".dockerignore"), "correct the line")
	}
	if err := fs.WalkDir(root.FS(), ".", w.visit); err != nil {
		return nil, fault.Wrap(err, "can't read the build context "+dir, "leave it out with a line in .dockerignore")
	}
	return w.Files, nil
}

// Close lets go of the directory.
func (f *Files) Close() error { return f.root.Close() }

// Read returns a small file of the context.
func (f *Files) Read(name string) ([]byte, error) {
	const most = 1 << 20
	r, err := bounded.OpenIn(f.root, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := bounded.ReadAll(r, most)
	if err != nil {
		return nil, fmt.Errorf("%s has %w", name, err)
	}
	return raw, nil
}

type walk struct {
	*Files
	ctx    context.Context
	ignore *patternmatcher.PatternMatcher
	always map[string]bool
	left   int64
}

// readIgnore reads DOCKERFILE.dockerignore, or .dockerignore. The file itself is
// sent too: builders use it once more.
func (w *walk) readIgnore(dockerfile string) error {
	var patterns []string
	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		raw, err := bounded.OpenIn(w.root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		w.always[name] = true
		patterns, err = ignorefile.ReadAll(io.LimitReader(raw, 1<<20))
		if err := errors.Join(err, raw.Close()); err != nil {
			return err
		}
		break
	}
	var err error
	w.ignore, err = patternmatcher.New(patterns)
	return err
}

func (w *walk) visit(name string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case name == ".":
		return nil
	}
	if !w.always[name] {
		out, err := w.ignore.MatchesOrParentMatches(name)
		switch {
		case err != nil:
			return err
		case out && d.IsDir() && !w.ignore.Exclusions() && !w.above(name):
			return fs.SkipDir
		case out:
			return nil
		}
	}
	if len(w.list) == maxFiles {
		return fmt.Errorf("it has more than %d files", maxFiles)
	}
	f, err := w.describe(name, d)
	if err == nil {
		w.list = append(w.list, f)
	}
	return err
}

// above says whether a directory holds a file that is always sent.
func (w *walk) above(dir string) bool {
	for name := range w.always {
		for name != "." {
			if name = path.Dir(name); name == dir {
				return true
			}
		}
	}
	return false
}

func (w *walk) describe(name string, d fs.DirEntry) (f file, err error) {
	f.path = name
	info, err := d.Info()
	if err != nil {
		return f, err
	}
	switch typ := info.Mode().Type(); typ {
	case fs.ModeDir:
		f.mode = fs.ModeDir | 0o755
	case fs.ModeSymlink:
		f.mode = fs.ModeSymlink | 0o777
		f.link, err = w.root.Readlink(name)
	case 0:
		f.mode = 0o644 | info.Mode()&0o100 | info.Mode()&0o100>>3 | info.Mode()&0o100>>6
		if w.left -= info.Size(); w.left < 0 {
			return f, fmt.Errorf("it has more than %d bytes", int64(maxBytes))
		}
		f.size, f.sum, err = w.hash(name, io.Discard)
	default:
		err = fmt.Errorf("%s is neither a file nor a directory nor a symbolic link", name)
	}
	return f, err
}

// hash copies a file and returns its size and sha256.
func (f *Files) hash(name string, to io.Writer) (n int64, sum [sha256.Size]byte, err error) {
	r, err := f.root.Open(name)
	if err != nil {
		return 0, sum, err
	}
	defer r.Close()
	h := sha256.New()
	n, err = io.Copy(io.MultiWriter(h, to), io.LimitReader(r, maxBytes))
	h.Sum(sum[:0])
	return n, sum, err
}

// Digest covers paths, kinds, whether they may be executed, and contents.
func (f *Files) Digest() string {
	h := sha256.New()
	for _, e := range f.list {
		fmt.Fprintf(h, "%o %d %x %q %q\n", uint32(e.mode.Perm())|uint32(e.mode.Type()), e.size, e.sum, e.path, e.link)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Tar writes the context. A file that has changed since Open is an error.
func (f *Files) Tar(ctx context.Context, to io.Writer) error {
	w := tar.NewWriter(to)
	for _, e := range f.list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f.add(w, e); err != nil {
			return err
		}
	}
	return w.Close()
}

func (f *Files) add(w *tar.Writer, e file) error {
	h := &tar.Header{Name: e.path, Mode: int64(e.mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX, Size: e.size}
	switch e.mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, e.path+"/"
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
	default:
		h.Typeflag = tar.TypeReg
	}
	if err := w.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	n, sum, err := f.hash(e.path, w)
	if err == nil && n == e.size && sum == e.sum {
		return nil
	}
	return errors.Join(fmt.Errorf("%s changed while it was read", e.path), err)
}
