package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
)

// Collected is what Collect took.
type Collected struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Skipped lists git's own data, links that would leave the output directory,
	// and paths that something else in the directory is in the way of.
	Skipped []Skip `json:"skipped,omitempty"`
}

// Collect extracts the agent's tar stream of a job's files below the directory
// out, which is made if need be. Files that exist there are replaced, each at
// once; directories are kept, and links in it never followed. A link of the
// job's is kept only when it stays inside, however other links may lead.
// Setuid, setgid and sticky bits are not taken over.
func Collect(ctx context.Context, r io.Reader, out string, lim Limits) (Collected, error) {
	const hint = "check that --out names a directory that can be written to"
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Collected{}, fault.Wrap(err, "collect files", hint)
	}
	h, err := openHost(Base{Dir: out})
	if err != nil {
		return Collected{}, fault.Wrap(err, "collect files", hint)
	}
	defer h.Close()
	c := collector{host: h, left: lim}
	for tr := newTarReader(r, lim); ; {
		if ctx.Err() != nil {
			return c.took, context.Cause(ctx)
		}
		e, err := tr.next()
		if errors.Is(err, io.EOF) {
			return c.took, nil
		}
		if err != nil {
			return c.took, refuse("the stream of collected files", err)
		}
		if err := c.entry(e, tr); err != nil {
			return c.took, err
		}
	}
}

type collector struct {
	host *host
	left Limits
	took Collected
}

func (c *collector) entry(h *tar.Header, content io.Reader) error {
	if c.left.Entries == 0 {
		return tooMuch("files")
	}
	if h.Size < 0 || h.Size > c.left.Bytes {
		return tooMuch("bytes")
	}
	c.left.Entries--
	c.left.Bytes -= h.Size
	name := strings.TrimSuffix(h.Name, "/")
	if err := checkCollected(name, h); err != nil {
		return refuse("the collected file "+quotePath(h.Name), err)
	}
	why, err := c.extract(name, h, content)
	if err != nil {
		return fault.Wrap(err, "collect "+quotePath(name), "check the room and the permissions in the directory that --out names")
	}
	switch {
	case why != "":
		c.took.Skipped = append(c.took.Skipped, Skip{name, why})
	case h.Typeflag == tar.TypeReg:
		c.took.Files++
		c.took.Bytes += h.Size
	}
	return nil
}

func checkCollected(name string, h *tar.Header) error {
	if err := checkPath(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		if h.Linkname != "" && len(h.Linkname) < maxPath && !strings.ContainsRune(h.Linkname, 0) {
			return nil
		}
		return errors.New("link to nowhere")
	}
	return fmt.Errorf("type %q is none of file, directory and link", h.Typeflag)
}

// extract puts one entry in place; why says that it was left out.
func (c *collector) extract(name string, h *tar.Header, content io.Reader) (why string, err error) {
	if h.Typeflag == tar.TypeSymlink && !staysInside(name, h.Linkname) {
		return "is a link that leaves the output directory", nil
	}
	if why := (Base{}).barred(&Entry{Path: name}); why != "" {
		return why, nil
	}
	dir, why, err := c.parent(path.Dir(name))
	if err != nil || why != "" {
		return why, err
	}
	defer dir.Close()
	base := path.Base(name)
	fi, err := lstat(dir, base)
	if err != nil {
		return "", err
	}
	if h.Typeflag == tar.TypeDir {
		switch {
		case fi == nil:
			return "", c.mkdir(dir, base, fs.FileMode(h.Mode).Perm()|0o700)
		case !fi.IsDir():
			return "is a directory in place of something else", nil
		}
		return "", nil
	}
	if fi != nil && fi.IsDir() {
		return "is a file in place of a directory", nil
	}
	return "", c.place(dir, base, h, content)
}

// place writes a file or link under another name and renames it.
func (c *collector) place(dir *os.Root, base string, h *tar.Header, content io.Reader) (err error) {
	temp := stagePrefix + strconv.FormatUint(rand.Uint64(), 36)
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(dir.Remove(temp)))
		}
	}()
	if h.Typeflag == tar.TypeSymlink {
		err = dir.Symlink(h.Linkname, temp)
	} else {
		err = writeFile(dir, temp, h, content)
	}
	if err == nil {
		err = c.own(dir, temp)
	}
	if err == nil {
		err = dir.Rename(temp, base)
	}
	return err
}

func writeFile(dir *os.Root, name string, h *tar.Header, content io.Reader) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, content, h.Size)
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode).Perm())
	}
	err = errors.Join(err, f.Close())
	if err == nil && h.ModTime.Before(time.Now()) {
		err = dir.Chtimes(name, time.Time{}, h.ModTime)
	}
	return err
}

// parent opens a directory below out, made if it is missing; why says that
// something else is in its place.
func (c *collector) parent(rel string) (dir *os.Root, why string, err error) {
	dir, err = c.host.root.OpenRoot(".")
	if err != nil || rel == "." {
		return dir, "", err
	}
	for part := range strings.SplitSeq(rel, "/") {
		fi, err := lstat(dir, part)
		if err == nil && fi == nil {
			if err = c.mkdir(dir, part, 0o755); err == nil {
				fi, err = dir.Lstat(part)
			}
		}
		if err == nil && !fi.IsDir() {
			dir.Close() // nothing was written through it
			return nil, "lies below something that is no directory", nil
		}
		if err != nil {
			dir.Close()
			return nil, "", err
		}
		if dir, err = enter(dir, fi); err != nil {
			return nil, "", err
		}
	}
	return dir, "", nil
}

func (c *collector) mkdir(dir *os.Root, name string, perm fs.FileMode) error {
	if err := dir.Mkdir(name, perm); err != nil {
		return err
	}
	return c.own(dir, name)
}

// own gives what was made to the owner of the output directory.
func (c *collector) own(dir *os.Root, name string) error {
	o := ownerOf(nil, c.host.self)
	if o.uid < 0 {
		return nil
	}
	return dir.Lchown(name, o.uid, o.gid)
}

// staysInside says whether a link's target can't leave the directory that the
// link's path is relative to. ".." is only allowed in the beginning, where it
// goes up from the link's own place: behind a name it would go up from wherever
// another link leads.
func staysInside(name, target string) bool {
	if path.IsAbs(target) {
		return false
	}
	depth := strings.Count(name, "/")
	named := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; named || depth < 0 {
				return false
			}
		default:
			named = true
		}
	}
	return true
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
