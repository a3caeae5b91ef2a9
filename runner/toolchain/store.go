package toolchain

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	buildPrefix = ".build-"
	trashPrefix = ".trash-"
	// keepTrees is how many unused trees stay for later runs.
	keepTrees = 8
	// touchAfter bounds how often a tree's time of last use is written.
	touchAfter = time.Hour
	// settle is how long an unlocked half-made tree is left alone: its maker
	// may be about to lock it.
	settle = time.Minute
)

// lockTree takes a shared lock on the directory itself and makes sure that it
// is still the one at that path. Closing the file gives the lock back.
func lockTree(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, closeWith(f, fmt.Errorf("lock %s: %w", dir, err))
	}
	held, err := f.Stat()
	if err != nil {
		return nil, closeWith(f, err)
	}
	there, err := os.Lstat(dir)
	if err != nil {
		return nil, closeWith(f, err)
	}
	if !os.SameFile(held, there) {
		return nil, closeWith(f, fs.ErrNotExist)
	}
	if now := time.Now(); now.Sub(held.ModTime()) > touchAfter {
		_ = os.Chtimes(dir, now, now) // only orders the trees when some are removed
	}
	return f, nil
}

func closeWith(f *os.File, err error) error {
	_ = f.Close() // the lock is what matters, and the first error
	return err
}

// prune removes trees that nobody uses, save the newest and the one at keep, and
// what crashed builders left. It is best effort: the next build tries again.
func prune(store, keep string) {
	children, err := os.ReadDir(store)
	if err != nil {
		return
	}
	var trees []fs.FileInfo
	for _, c := range children {
		info, err := c.Info()
		switch {
		case err != nil || !c.IsDir() || c.Name() == filepath.Base(keep):
		case strings.HasPrefix(c.Name(), "."):
			if time.Since(info.ModTime()) > settle {
				discard(store, c.Name())
			}
		default:
			trees = append(trees, info)
		}
	}
	slices.SortFunc(trees, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, t := range trees[min(len(trees), keepTrees):] {
		discard(store, t.Name())
	}
}

// discard removes a directory of the store unless somebody holds its lock.
func discard(store, name string) {
	dir := filepath.Join(store, name)
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close() // a lock, nothing to flush
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	// Renamed first, so that nobody finds it half removed.
	trash := filepath.Join(store, trashPrefix+strings.TrimPrefix(name, trashPrefix))
	if os.Rename(dir, trash) == nil {
		_ = os.RemoveAll(trash)
	}
}
