package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// locks is where there is a lock for each directory of gVisor's that is in use. It isn't in
// that directory, which comes and goes with installations.
const locks = "/run"

// Hold keeps other installations away from gVisor's directory, and from those that the
// installation with the journal in dir has used, until it is released.
func (r *Runtime) Hold(dir string) (release func() error, err error) {
	j, err := journal.Peek(journal.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	libs, err := j.Keys(phase.Runtime, actUse)
	if err != nil {
		return nil, err
	}
	if r.wanted() {
		libs = append(libs, r.lib())
	}
	for i := range libs {
		libs[i] = phase.Resolved(libs[i])
	}
	slices.Sort(libs)
	var held []func() error
	release = func() (err error) {
		for _, f := range held {
			err = errors.Join(err, f())
		}
		return err
	}
	for _, lib := range slices.Compact(libs) {
		f, err := hold(lib)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, f)
	}
	return release, nil
}

func lockOf(lib string) string {
	sum := sha256.Sum256([]byte(lib))
	return filepath.Join(locks, "quavon-install-"+hex.EncodeToString(sum[:8])+".lock")
}

// hold takes the lock of one directory. Who releases it removes the file: another that has
// opened it before and locks it behind that has the lock of nothing, and tries again.
func hold(lib string) (release func() error, err error) {
	path := lockOf(lib)
	for {
		l := flock.New(path, flock.SetPermissions(0o600))
		got, err := l.TryLock()
		switch {
		case err != nil:
			return nil, fault.Wrap(errors.Join(err, l.Close()), "take the lock "+path+" of gVisor in "+lib, "run as root")
		case !got:
			_ = l.Close() // there is nothing to lose
			return nil, fault.New("another quavon installs or uninstalls, with gVisor in "+lib+" as this one has it",
				"wait until it has ended, or use another directory with --lib")
		}
		ours, err := l.Stat()
		there, gone := os.Lstat(path)
		if err == nil && gone == nil && os.SameFile(ours, there) {
			return func() error { return errors.Join(os.Remove(path), l.Close()) }, nil
		}
		_ = l.Close() // there is nothing to lose
	}
}
