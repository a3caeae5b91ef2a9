package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// build makes the tree beside its final place and renames it there. When another
// process was faster, its tree stands and this one is dropped.
func build(store, dir string, spec treeSpec) error {
	if err := os.MkdirAll(store, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(store, buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // gone after the rename; else prune removes it
	lock, err := lockTree(tmp)
	if err != nil {
		return err
	}
	defer lock.Close() // a lock, nothing to flush
	if err := fill(tmp, spec); err != nil {
		return err
	}
	err = os.Rename(tmp, dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	if err != nil {
		return err
	}
	prune(store, dir)
	return nil
}

// fill writes the tree's content below root.
func fill(root string, spec treeSpec) error {
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	for _, m := range spec.mountpoints {
		if err := mkdirAll(root, m); err != nil {
			return err
		}
	}
	for _, b := range spec.layout.binds {
		if err := mkdirAll(root, b.Target); err != nil {
			return err
		}
	}
	for _, l := range spec.layout.links {
		if err := os.Symlink(l.target, filepath.Join(root, l.name)); err != nil {
			return err
		}
	}
	return fillEtc(root, spec)
}

func fillEtc(root string, spec treeSpec) error {
	if err := mkdirAll(root, "/etc"); err != nil {
		return err
	}
	for _, e := range spec.entries {
		if err := mkdirAll(root, filepath.Join("/etc", filepath.Dir(e.rel))); err != nil {
			return err
		}
		if err := copyEntry(root, spec.etc, e); err != nil {
			return err
		}
	}
	for _, f := range synthetic {
		if err := writeFile(filepath.Join(root, "etc", f.name), []byte(f.content), 0o644); err != nil {
			return err
		}
	}
	return os.Symlink("/proc/self/mounts", filepath.Join(root, "etc", "mtab"))
}

func copyEntry(root, etc string, e entry) error {
	src, dst := filepath.Join(etc, e.rel), filepath.Join(root, "etc", e.rel)
	var err error
	switch {
	case e.is(unix.S_IFDIR):
		return mkdirAll(root, filepath.Join("/etc", e.rel))
	case e.is(unix.S_IFLNK):
		err = copyLink(src, dst)
	default:
		err = copyFile(src, dst, e)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since the scan: the next key will differ
	}
	return err
}

func copyLink(src, dst string) error {
	target, err := os.Readlink(src)
	if err != nil {
		return err
	}
	return os.Symlink(target, dst)
}

func copyFile(src, dst string, e entry) error {
	data, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	if err := writeFile(dst, data, fs.FileMode(0o644|e.mode&0o111)); err != nil {
		return err
	}
	mtime := time.Unix(0, e.mtime)
	return os.Chtimes(dst, mtime, mtime)
}

// mkdirAll makes dir and its parents below root, all 0755 whatever the umask.
func mkdirAll(root, dir string) error {
	p := root
	for _, name := range strings.Split(strings.Trim(dir, "/"), "/") {
		p = filepath.Join(p, name)
		err := os.Mkdir(p, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.Chmod(p, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(name string, data []byte, mode fs.FileMode) error {
	if err := os.WriteFile(name, data, mode); err != nil {
		return err
	}
	return os.Chmod(name, mode)
}
