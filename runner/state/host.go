package state

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/gofrs/flock"

	"github.com/quavon/quavon/runner/fault"
)

// DefaultLockFile is the host's lock.
const DefaultLockFile = "/run/quavon-runner.lock"

// LockHost takes the lock of the one `quavon runner` a host may have:
// QUAVON_LOCK_FILE, else DefaultLockFile.
func LockHost() (release func() error, err error) {
	return LockHostAt(cmp.Or(os.Getenv(EnvLockFile), DefaultLockFile))
}

// LockHostAt takes the host's lock at a path. Jobs started by `quavon run` don't
// take it. The returned function gives it up; so does the process's end.
func LockHostAt(path string) (release func() error, err error) {
	l := flock.New(path)
	ok, err := l.TryLock()
	if err != nil {
		return nil, fault.Wrap(errors.Join(err, l.Close()), "take the host lock",
			"run as a user that can write "+path+", or set "+EnvLockFile)
	}
	if !ok {
		return nil, fault.Wrap(errors.Join(ErrInUse, l.Close()), fmt.Sprintf("take the host lock %s", path),
			"stop the other `quavon runner` of this host first")
	}
	return l.Close, nil
}
