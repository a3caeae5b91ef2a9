package state

import (
	"errors"
	"fmt"
	"os"

	"github.com/gofrs/flock"

	"github.com/quavon/quavon/runner/fault"
)

// LockHost takes the lock of the one `quavon runner` a host may have:
// QUAVON_LOCK_FILE, else /run/quavon-runner.lock. Jobs started by `quavon run`
// don't take it. The returned function gives it up; so does the process's end.
func LockHost() (release func() error, err error) {
	path := os.Getenv(EnvLockFile)
	if path == "" {
		path = "/run/quavon-runner.lock"
	}
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
