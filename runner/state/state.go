// Package state is Quavon's directory on the host: one locked slot per sandbox,
// found and reaped by the next start when its owner died, and the lock that
// keeps one `quavon runner` per host. Whoever can write to this directory or a
// parent of it controls every sandbox, so all of them are checked.
package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Environment variables that move what this package owns.
const (
	EnvDir      = "QUAVON_STATE_DIR"
	EnvLockFile = "QUAVON_LOCK_FILE"
)

const (
	sandboxesDir = "sandboxes"
	lockName     = "lock"
	// indexWait bounds the wait for the index lock, which is held for a few
	// system calls at a time.
	indexWait = 10 * time.Second
	pollEvery = 2 * time.Millisecond
)

// Default is where the state directory belongs: QUAVON_STATE_DIR, else
// /var/lib/quavon for root, else the user's XDG state directory.
func Default() (string, error) {
	if p := os.Getenv(EnvDir); p != "" {
		return filepath.Abs(p)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/quavon", nil
	}
	if p := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(p) {
		return filepath.Join(p, "quavon"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Wrap(err, "find the state directory", "set "+EnvDir+" to a directory of your own")
	}
	return filepath.Join(home, ".local", "state", "quavon"), nil
}

// Dir is a checked state directory. It is safe for concurrent use, also by
// several processes.
type Dir struct{ path string }

// Open creates the state directory when it is missing, mode 0700, and refuses
// one that somebody other than root and the caller could change.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Wrap(err, "open the state directory", "name it by an absolute path in "+EnvDir)
	}
	if err := Check(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(path, sandboxesDir), 0o700); err != nil {
		return nil, fault.Wrap(err, "create the state directory",
			"make "+path+" writable for you, or set "+EnvDir+" to a directory of your own")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fault.Wrap(err, "open the state directory", "set "+EnvDir+" to a directory of your own")
	}
	return &Dir{path: real}, nil
}

// Path joins elem to the directory's path, which has no symbolic links.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Create makes the slot of a new sandbox of a backend and locks it. It fails
// when the id is taken, whether by a live sandbox or by one that was not reaped
// yet.
func (d *Dir) Create(ctx context.Context, backend, id string) (*Slot, error) {
	if !job.ValidID(id) {
		return nil, fault.New(fmt.Sprintf("create the state of sandbox %q: not an id", id),
			"use 1 to 64 characters of a-z, 0-9 and -")
	}
	var s *Slot
	err := d.withIndex(ctx, func() error {
		path := d.Path(sandboxesDir, id)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		err := os.WriteFile(filepath.Join(path, lockName), []byte(backend), 0o600)
		if err == nil {
			s, err = lockSlot(d, id)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(path))
		}
		return nil
	})
	if err != nil {
		hint := "make room, or make " + d.Path(sandboxesDir) + " writable: `quavon doctor` looks at both"
		if errors.Is(err, fs.ErrExist) {
			hint = "choose another id, or wait until the sandbox that has it is gone"
		}
		return nil, fault.Wrap(err, "create the state of sandbox "+id, hint)
	}
	return s, nil
}

// List names every sandbox that has a slot, sorted.
func (d *Dir) List() ([]string, error) {
	entries, err := os.ReadDir(d.Path(sandboxesDir))
	if err != nil {
		return nil, fault.Wrap(err, "list sandboxes", "check "+d.Path(sandboxesDir))
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && job.ValidID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// ErrInUse means that a live process holds the lock.
var ErrInUse = errors.New("in use")

// Claim takes over the slot of a backend's sandbox whose owner is gone. It
// returns ErrInUse while the owner lives and fs.ErrNotExist when the backend has
// no such slot.
func (d *Dir) Claim(ctx context.Context, backend, id string) (*Slot, error) {
	var s *Slot
	err := d.withIndex(ctx, func() error {
		if _, err := os.Lstat(d.Path(sandboxesDir, id)); err != nil {
			return err
		}
		// A slot without a name is one whose creation was cut short: anyone's.
		name, err := os.ReadFile(d.Path(sandboxesDir, id, lockName))
		if err == nil && len(name) > 0 && string(name) != backend {
			return fs.ErrNotExist
		}
		s, err = lockSlot(d, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim the state of sandbox %s: %w", id, err)
	}
	return s, nil
}

// withIndex runs f while no other process creates, claims or removes a slot.
// Without it, a slot could be reaped between its creation and its locking.
func (d *Dir) withIndex(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, indexWait,
		fmt.Errorf("another process holds %s for longer than %v", d.Path(lockName), indexWait))
	defer cancel()
	l := flock.New(d.Path(lockName))
	if _, err := l.TryLockContext(ctx, pollEvery); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return errors.Join(err, l.Close())
	}
	return errors.Join(f(), l.Close())
}
