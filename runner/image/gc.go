package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
)

// ErrInUse means that a sandbox runs on the image.
var ErrInUse = errors.New("a sandbox uses it")

// Remove takes an image out of the store. It fails with ErrInUse rather than
// take it from a sandbox.
func (s *Store) Remove(ctx context.Context, r *Record) error {
	l, err := s.lock(ctx, r.Config)
	if err != nil {
		return fault.Wrap(err, "can't remove the image "+r.Config.String(), "wait for the import that holds it")
	}
	defer l.Close()
	err = s.remove(s.root(r.Config), s.record(r.Config))
	if err == nil {
		err = s.changeNames(ctx, func(n names) {
			maps.DeleteFunc(n, func(_ string, id v1.Hash) bool { return id == r.Config })
		})
	}
	if err != nil {
		hint := "check the permissions in " + s.dir
		if errors.Is(err, ErrInUse) {
			hint = "wait until the job has ended, or end it"
		}
		return fault.Wrap(err, "can't remove the image "+r.Config.String(), hint)
	}
	return nil
}

// remove deletes a record and its root while nobody uses it.
func (s *Store) remove(root, record string) error {
	f, err := os.Open(root)
	if err == nil {
		defer f.Close()
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return ErrInUse
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range []string{record, root} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Collected is what a garbage collection removed.
type Collected struct {
	Images []*Record
	// Leftovers are files of imports that did not end.
	Leftovers []string
	Bytes     int64
}

// Collect removes what imports left behind, and images for which keep is false
// and that no sandbox uses.
func (s *Store) Collect(ctx context.Context, keep func(*Record) bool) (Collected, error) {
	var c Collected
	all, err := s.records()
	if err != nil {
		return c, fault.Wrap(err, "can't read all records", "remove the file that is named")
	}
	for _, r := range all {
		if keep(r) {
			continue
		}
		switch err := s.Remove(ctx, r); {
		case err == nil:
			c.Images = append(c.Images, r)
			c.Bytes += r.Root.Allocated
		case !errors.Is(err, ErrInUse):
			return c, err
		}
	}
	return c, errors.Join(s.sweep(&c), s.sweepBundles(&c))
}

// sweep removes working directories and roots without a record, unless an import
// that holds the image's lock is about to need them, or who has Scratch.
func (s *Store) sweep(c *Collected) error {
	for _, d := range []string{tmpDir, rootsDir} {
		entries, err := os.ReadDir(filepath.Join(s.dir, d))
		if err != nil {
			return err
		}
		for _, e := range entries {
			lock := strings.TrimSuffix(e.Name(), ".erofs")
			if _, err := v1.NewHash("sha256:" + lock); err != nil {
				lock = scratchLock
			}
			if err := s.sweepOne(filepath.Join(s.dir, d, e.Name()), lock, c); err != nil {
				return fmt.Errorf("remove what an import left: %w", err)
			}
		}
	}
	slices.Sort(c.Leftovers)
	return nil
}

func (s *Store) sweepOne(path, hex string, c *Collected) error {
	l := flock.New(filepath.Join(s.dir, locksDir, hex))
	free, err := l.TryLock()
	defer l.Close()
	if err != nil || !free {
		return err
	}
	record := filepath.Join(s.dir, recordsDir, hex+".json")
	if filepath.Base(filepath.Dir(path)) == tmpDir {
		c.Leftovers = append(c.Leftovers, path)
		return os.RemoveAll(path)
	}
	if _, err := os.Stat(record); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.remove(path, record); err != nil {
		if errors.Is(err, ErrInUse) {
			return nil
		}
		return err
	}
	c.Leftovers = append(c.Leftovers, path)
	return nil
}
