package imagetest

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Overlay shows layers as overlayfs does, each unpacked into a directory of its
// own with the kernel's form of whiteouts. Every directory needs an entry.
func Overlay(t testing.TB, layers ...[]Entry) string {
	t.Helper()
	var dirs []string
	for _, entries := range layers {
		dirs = append(dirs, t.TempDir())
		Unpack(t, dirs[len(dirs)-1], entries)
	}
	return OverlayDirs(t, dirs...)
}

// OverlayDirs shows directories on top of each other, bottom first.
func OverlayDirs(t testing.TB, dirs ...string) string {
	t.Helper()
	NeedMount(t)
	lower := t.TempDir() // there have to be two
	for _, dir := range dirs {
		lower = dir + ":" + lower
	}
	at := t.TempDir()
	must(t, unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+lower))
	unmount(t, at)
	return at
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Unpack makes a layer's entries below dir, with the kernel's form of whiteouts.
func Unpack(t testing.TB, dir string, entries []Entry) {
	t.Helper()
	for _, e := range entries {
		unpackEntry(t, dir, e)
	}
	for i := len(entries) - 1; i >= 0; i-- { // children before their directories
		if e := entries[i]; e.Type == tar.TypeDir {
			setAttrs(t, filepath.Join(dir, e.Name), e)
		}
	}
}

func unpackEntry(t testing.TB, dir string, e Entry) {
	t.Helper()
	path := filepath.Join(dir, e.Name)
	parent, name := filepath.Split(path)
	switch hidden, is := strings.CutPrefix(name, ".wh."); {
	case name == ".wh..wh..opq":
		must(t, unix.Setxattr(filepath.Clean(parent), "trusted.overlay.opaque", []byte("y"), 0))
		return
	case is:
		whiteout(t, parent+hidden)
		return
	}
	switch e.Type {
	case tar.TypeDir:
		if filepath.Clean(path) != filepath.Clean(dir) {
			must(t, os.Mkdir(path, 0o700))
		}
		return
	case tar.TypeLink:
		must(t, unix.Linkat(unix.AT_FDCWD, filepath.Join(dir, e.Link), unix.AT_FDCWD, path, 0))
		return
	case tar.TypeSymlink:
		must(t, os.Symlink(e.Link, path))
	case tar.TypeFifo:
		must(t, unix.Mkfifo(path, 0o600))
	case tar.TypeChar, tar.TypeBlock:
		whiteout(t, path) // an image's device nodes are never made
		return
	default:
		must(t, os.WriteFile(path, []byte(e.Body), 0o600))
	}
	setAttrs(t, path, e)
}

func whiteout(t testing.TB, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil && !os.IsExist(err) {
		t.Fatalf("whiteout %s: %v", path, err)
	}
}

func setAttrs(t testing.TB, path string, e Entry) {
	t.Helper()
	must(t, os.Lchown(path, e.UID, e.GID))
	if e.Type != tar.TypeSymlink {
		must(t, unix.Chmod(path, uint32(e.Mode&0o7777)))
	}
	for k, v := range e.Xattrs {
		must(t, unix.Lsetxattr(path, k, []byte(v), 0))
	}
	mtime := e.Mtime
	if mtime.IsZero() {
		mtime = time.Unix(defaultTime, 0)
	}
	ts, err := unix.TimeToTimespec(mtime)
	must(t, err)
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
}
