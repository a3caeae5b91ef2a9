package files

import (
	"archive/tar"
	"bufio"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Get writes a tar stream of what matches the globs below dir, sorted by path,
// with names relative to dir. A directory that matches brings everything below
// it; no globs means everything. Symbolic links are taken as they are and never
// followed, hard links become files of their own, and special files are left
// out. Exceeding a limit ends the stream with a *LimitError.
func Get(dir string, patterns []string, w io.Writer, lim Limits) error {
	gs, err := compile(patterns)
	if err != nil {
		return err
	}
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	bw := bufio.NewWriterSize(w, bufferSize)
	a := archive{tw: tar.NewWriter(bw), meter: meter{max: lim}, buf: make([]byte, bufferSize)}
	if err := a.walk(root, "", gs); err != nil {
		return err
	}
	if err := a.tw.Close(); err != nil {
		return err
	}
	return bw.Flush()
}

// archive is a tar stream being written.
type archive struct {
	tw    *tar.Writer
	meter meter
	buf   []byte
}

// walk adds what matches below root, the directory at rel ("" or "a/b/").
func (a *archive) walk(root *os.Root, rel string, gs globs) error {
	list, err := entries(root, rel)
	if err != nil {
		return err
	}
	for _, e := range list {
		below, hit := gs.step(e.info.Name())
		if hit {
			below = everything
			if err := a.add(root, rel+e.name, e.info); err != nil {
				return err
			}
		}
		if !e.info.IsDir() || len(below) == 0 {
			continue
		}
		if err := a.descend(root, e, rel, below); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) descend(root *os.Root, e entry, rel string, gs globs) error {
	sub, err := enter(root, e.info)
	if err != nil {
		return wrap(rel+e.name, err)
	}
	defer sub.Close()
	return a.walk(sub, rel+e.name, gs)
}

// add writes one entry; name is relative to where the stream starts.
func (a *archive) add(root *os.Root, name string, fi fs.FileInfo) error {
	h := header(name, fi)
	var err error
	switch {
	case fi.IsDir():
	case fi.Mode()&fs.ModeSymlink != 0:
		h.Linkname, err = root.Readlink(fi.Name())
	case fi.Mode().IsRegular():
		err = a.file(root, fi.Name(), h)
		return wrap(name, err)
	default:
		return nil
	}
	if err == nil {
		err = a.meter.take(name, 0)
	}
	if err == nil {
		err = a.tw.WriteHeader(h)
	}
	return wrap(name, err)
}

// file writes a regular file: exactly as many bytes as its header says, however
// it changes meanwhile.
func (a *archive) file(root *os.Root, name string, h *tar.Header) error {
	f, fi, err := openRegular(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Size = fi.Size()
	if err := a.meter.take(h.Name, h.Size); err != nil {
		return err
	}
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	return copyExactly(a.tw, f, h.Size, a.buf)
}

// header describes an entry without content. Owners are the sandbox's business
// and are left out.
func header(name string, fi fs.FileInfo) *tar.Header {
	h := &tar.Header{Name: name, Mode: int64(fi.Mode().Perm()), ModTime: fi.ModTime()}
	switch {
	case fi.IsDir():
		h.Typeflag = tar.TypeDir
	case fi.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
	default:
		h.Typeflag = tar.TypeReg
	}
	return h
}

// entry is a name in a directory, with a "/" behind those of directories, so
// that sorting entries sorts whole paths bytewise, as git does.
type entry struct {
	name string
	info fs.FileInfo
}

// entries lists a directory, sorted.
func entries(root *os.Root, rel string) ([]entry, error) {
	all, err := names(root, rel)
	if err != nil {
		return nil, wrap(rel, err)
	}
	list := make([]entry, 0, len(all))
	for _, name := range all {
		fi, err := root.Lstat(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, wrap(rel+name, err)
		}
		list = append(list, entry{key(fi), fi})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

func key(fi fs.FileInfo) string {
	if fi.IsDir() {
		return fi.Name() + "/"
	}
	return fi.Name()
}
