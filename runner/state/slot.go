package state

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/gofrs/flock"

	"github.com/quavon/quavon/runner/fault"
)

// Slot is the state of one sandbox, locked until Remove or Release.
type Slot struct {
	ID   string
	dir  *Dir
	lock *flock.Flock
}

// lockSlot opens the lock file close-on-exec, so no child keeps a dead run's
// lock.
func lockSlot(d *Dir, id string) (*Slot, error) {
	l := flock.New(d.Path(sandboxesDir, id, lockName))
	ok, err := l.TryLock()
	if err == nil && !ok {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Slot{ID: id, dir: d, lock: l}, nil
}

// Path joins elem to the slot's path.
func (s *Slot) Path(elem ...string) string {
	return s.dir.Path(append([]string{sandboxesDir, s.ID}, elem...)...)
}

// Remove deletes the slot with all that is in it and releases the lock, also
// with a cancelled context. The lock file goes last: what could not be removed
// stays claimable.
func (s *Slot) Remove(ctx context.Context) error {
	if err := s.empty(); err != nil {
		return fault.Wrap(err, "remove the state of sandbox "+s.ID, "remove "+s.Path()+" by hand")
	}
	err := s.dir.withIndex(context.WithoutCancel(ctx), func() error {
		if err := os.Remove(s.Path(lockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Remove(s.Path())
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, "remove the state of sandbox "+s.ID, "remove "+s.Path()+" by hand")
	}
	return s.Release()
}

func (s *Slot) empty() error {
	entries, err := os.ReadDir(s.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != lockName {
			errs = append(errs, os.RemoveAll(s.Path(e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Release gives up the lock and leaves the slot for a later Claim.
func (s *Slot) Release() error { return s.lock.Close() }
