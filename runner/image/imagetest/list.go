package imagetest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// List describes everything below dir, one line for each path: type, mode,
// owner, time, size, content, link target, names of the same inode, extended
// attributes when xattrs is set.
func List(t testing.TB, dir string, xattrs bool) map[string]string {
	t.Helper()
	lines := map[string]string{}
	links := map[uint64][]string{}
	inodes := map[string]uint64{}
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == unix.ENOENT {
			return nil // overlayfs lists whiteouts of directories it doesn't merge
		} else if err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		lines[rel] = describe(t, path, &st, xattrs)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			inodes[rel] = st.Ino
			links[st.Ino] = append(links[st.Ino], rel)
		}
		return nil
	}))
	for rel, ino := range inodes {
		if same := links[ino]; len(same) > 1 {
			lines[rel] += fmt.Sprintf(" same=%q", same)
		}
	}
	return lines
}

func describe(t testing.TB, path string, st *unix.Stat_t, xattrs bool) string {
	t.Helper()
	s := fmt.Sprintf("%o %d:%d %d.%09d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s += fmt.Sprintf(" %d %x", st.Size, hash(t, path))
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		must(t, err)
		s += fmt.Sprintf(" -> %q", target)
	}
	if xattrs {
		s += listXattrs(t, path)
	}
	return s
}

func hash(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	must(t, err)
	return h.Sum(nil)
}

func listXattrs(t testing.TB, path string) string {
	t.Helper()
	buf := make([]byte, 128<<10)
	n, err := unix.Llistxattr(path, buf)
	must(t, err)
	var names []string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if name != "" && !strings.HasPrefix(name, "trusted.overlay.") && name != "security.selinux" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var s strings.Builder
	for _, name := range names {
		n, err := unix.Lgetxattr(path, name, buf)
		must(t, err)
		fmt.Fprintf(&s, " %s=%q", name, buf[:n])
	}
	return s.String()
}
