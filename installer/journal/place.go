package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
)

// missing is how many directories, from this one up, aren't there, and the uppermost.
func missing(dir string) (n int, top string) {
	for ; !exists(dir); dir = filepath.Dir(dir) {
		n, top = n+1, dir
	}
	return n, top
}

// nursery is where a directory with a journal below it grows before it has its name. It is
// one journal's alone: what a killed process left there is used, or found by Sweep.
func (o Options) nursery(top string) string {
	return filepath.Join(filepath.Dir(top), "."+filepath.Base(top)+"."+digest([]byte(o.Dir))[:8]+".quavon-new")
}

// take makes the directory and takes its lock. Leave removes the file that is locked: who
// has opened it before and locks it behind that has the lock of nothing, and tries again.
func (j *Journal) take() error {
	for {
		var got bool
		var err error
		if made, top := missing(filepath.Dir(j.Dir)); made > 0 {
			got, err = j.found(made, top)
		} else if err = os.MkdirAll(j.Dir, 0o700); err == nil {
			got, err = j.tryLock(j.Dir)
		}
		switch {
		case err != nil && fault.Hint(err) != "":
			return err
		case err != nil:
			return fault.Wrap(err, "make the installer's directory "+j.Dir, "make its parent writable for you, or run as root")
		case got:
			return nil
		}
	}
}

// tryLock takes the lock in a directory; it has not got it when that was removed meanwhile.
func (j *Journal) tryLock(dir string) (bool, error) {
	path := filepath.Join(dir, lockName)
	j.lock = flock.New(path, flock.SetPermissions(0o600))
	got, err := j.lock.TryLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !got:
		return false, fault.New("another quavon installs or uninstalls in "+filepath.Dir(j.Dir), "wait until it has ended")
	}
	ours, err := j.lock.Stat()
	there, gone := os.Lstat(path)
	if err == nil && gone == nil && os.SameFile(ours, there) {
		return true, nil
	}
	_ = j.lock.Close() // there is nothing to lose
	return false, nil
}

// found makes the journal's directory and those above it, and gives them their place in one
// step, when it is written down in them that they were made for it.
func (j *Journal) found(made int, top string) (bool, error) {
	tmp := j.nursery(top)
	rest, err := filepath.Rel(top, j.Dir)
	if err != nil {
		return false, err
	}
	grown := Journal{Options: j.Options, state: state{MadeDir: true, MadeDirs: made, Phases: map[string]Done{}}}
	grown.Dir = filepath.Join(tmp, rest)
	if err := errors.Join(os.MkdirAll(filepath.Dir(grown.Dir), 0o755), os.MkdirAll(grown.Dir, 0o700)); err != nil {
		return false, err
	}
	j.point("made " + tmp)
	if got, err := j.tryLock(grown.Dir); !got {
		return false, err
	}
	j.point("locked " + tmp)
	err = grown.saveState()
	for dir := filepath.Dir(grown.Dir); err == nil && dir != filepath.Dir(tmp); dir = filepath.Dir(dir) {
		err = disk.SyncDir(dir)
	}
	if err == nil {
		j.point("rename " + top)
		err = os.Rename(tmp, top)
	}
	if err != nil {
		_ = os.RemoveAll(tmp) // the first error counts
		_ = j.lock.Close()
		if errors.Is(err, fs.ErrExist) { // another has made it meanwhile
			err = nil
		}
		return false, err
	}
	return true, disk.SyncDir(filepath.Dir(top))
}

// Sweep removes what a process has left that was killed before its journal had a place.
func Sweep(o Options) error {
	for top := filepath.Dir(o.Dir); top != "/"; top = filepath.Dir(top) {
		tmp := o.nursery(top)
		if !exists(tmp) {
			continue
		}
		rest, err := filepath.Rel(top, o.Dir)
		if err != nil {
			return err
		}
		lock := flock.New(filepath.Join(tmp, rest, lockName), flock.SetPermissions(0o600))
		got, err := lock.TryLock()
		if err == nil && !got {
			continue // somebody is just installing
		}
		if err := errors.Join(os.RemoveAll(tmp), lock.Close()); err != nil {
			return fault.Wrap(err, "remove what a killed installation has left", "remove "+tmp)
		}
	}
	return nil
}
