package files

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Put extracts a tar stream below dir, which must exist. Files, directories,
// symbolic and hard links are made and owned by uid and gid; other types are
// errors. Permissions and times of files are kept, setuid, setgid and sticky
// bits never are: nobody needs them in a sandbox without capabilities. What
// exists is replaced, except that a directory is kept. No path leaves dir, also
// not through links that a job has planted. Errors name the entry; what was
// extracted before it stays.
func Put(dir string, uid, gid int, r io.Reader, lim Limits) error {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return put(root, uid, gid, r, lim)
}

// Load is Put into a directory of the agent's own.
func Load(dir string, uid, gid int, r io.Reader, lim Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return put(root, uid, gid, r, lim)
}

func put(root *os.Root, uid, gid int, r io.Reader, lim Limits) error {
	p := putter{root: root, uid: uid, gid: gid, meter: meter{max: lim}, buf: make([]byte, bufferSize)}
	defer p.leave()
	in := &source{r: r}
	tr := tar.NewReader(in)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) && !in.ended {
			// What follows the end mark is padding; read it, so that the sender
			// isn't left with bytes that nobody takes.
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("tar stream: %w", err)
		}
		if err := p.entry(h, tr); err != nil {
			return wrap(h.Name, err)
		}
	}
}

// source notes when a stream ends: archive/tar stops at the end mark, before
// that, and takes a stream that was cut between two entries for complete.
type source struct {
	r     io.Reader
	ended bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.ended = s.ended || n == 0 && errors.Is(err, io.EOF)
	return n, err
}

type putter struct {
	root     *os.Root
	uid, gid int
	meter    meter
	buf      []byte
	// in is the open directory of the last file, at path inPath: files come one
	// directory after the other.
	in     *os.Root
	inPath string
}

func (p *putter) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if err := p.meter.take(h.Name, h.Size); err != nil {
		return err
	}
	name := path.Clean(strings.TrimSuffix(h.Name, "/"))
	if h.Name == "" || !filepath.IsLocal(name) {
		return errors.New("path leaves the directory")
	}
	if name == "." {
		return nil
	}
	if err := p.enter(path.Dir(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return p.dir(name, fs.FileMode(h.Mode).Perm())
	case tar.TypeReg, tar.TypeGNUSparse:
		return p.file(path.Base(name), h, content)
	case tar.TypeSymlink:
		base := path.Base(name)
		return replace(p.in, base, func() error {
			return errors.Join(p.in.Symlink(h.Linkname, base), p.in.Lchown(base, p.uid, p.gid))
		})
	case tar.TypeLink:
		target := path.Clean(h.Linkname)
		in, err := enterAll(p.root, path.Dir(target))
		if err != nil {
			return err
		}
		return errors.Join(replace(p.root, name, func() error { return p.root.Link(target, name) }), in.Close())
	}
	return fmt.Errorf("type %q of a tar entry is not supported", h.Typeflag)
}

// enter opens a directory, made if need be, for the files in it.
func (p *putter) enter(dir string) error {
	if p.in != nil && p.inPath == dir {
		return nil
	}
	p.leave()
	if err := p.parents(dir); err != nil {
		return err
	}
	in, err := enterAll(p.root, dir)
	if err == nil {
		p.in, p.inPath = in, dir
	}
	return err
}

func (p *putter) leave() {
	if p.in != nil {
		p.in.Close() // a directory: nothing to lose
		p.in = nil
	}
}

// parents makes missing parent directories, open to all as "mkdir -p" would.
func (p *putter) parents(dir string) error {
	if in, err := enterAll(p.root, dir); err == nil {
		return in.Close()
	}
	if err := p.parents(path.Dir(dir)); err != nil {
		return err
	}
	return p.dir(dir, 0o755)
}

// dir makes a directory in one that is there; one that exists gets owner and mode.
func (p *putter) dir(name string, perm fs.FileMode) error {
	in, err := enterAll(p.root, path.Dir(name))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.Mkdir(path.Base(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	made, err := enterAll(in, path.Base(name))
	if err != nil {
		return err
	}
	defer made.Close()
	d, err := made.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Chown(p.uid, p.gid), d.Chmod(perm), d.Close())
}

func (p *putter) file(name string, h *tar.Header, content io.Reader) error {
	var f *os.File
	err := replace(p.in, name, func() (err error) {
		f, err = p.in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	err = copyExactly(f, content, h.Size, p.buf)
	err = errors.Join(err, f.Chown(p.uid, p.gid), f.Chmod(fs.FileMode(h.Mode).Perm()), f.Close())
	if err != nil || h.ModTime.IsZero() {
		return err
	}
	return p.in.Chtimes(name, time.Time{}, h.ModTime)
}

// replace makes something at name, in place of a file or link that is there.
func replace(dir *os.Root, name string, make func() error) error {
	err := make()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, statErr := dir.Lstat(name)
	if statErr != nil {
		return statErr
	}
	if fi.IsDir() {
		return err
	}
	if err := dir.Remove(name); err != nil {
		return err
	}
	return make()
}
