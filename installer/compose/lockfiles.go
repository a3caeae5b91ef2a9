package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/regular"
)

// theirs is beside the lock's name where the lock of the operator's own builds is kept.
const theirs = ".before"

// keepTheirs copies a lock that was there before anything was installed.
func (i *images) keepTheirs(tx phase.Tx) error {
	if _, err := os.Lstat(i.Target.Compose()); !errors.Is(err, fs.ErrNotExist) {
		return err // then it is an installation's
	}
	path := i.Target.Lock()
	data, err := regular.ReadFile(path, maxLock)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return tx.WriteFile(path+theirs, data, 0o644)
}

// built are the forms of names, by directory, of what the builder writes beside a lock.
var built = map[string]*regexp.Regexp{
	"images":     regexp.MustCompile(`^.+-linux-.+-[0-9a-f]{12}\.(cdx\.json|erofs|ext4)$`),
	"signatures": regexp.MustCompile(`^[0-9a-f]{64}\.json$`),
}

// removeAll removes the lock and what the builder has written for it. The operator's own
// lock is there again, and what that names stays.
func (i *images) removeAll() error {
	path := i.Target.Lock()
	own, err := regular.ReadFile(path+theirs, maxLock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir, form := range built {
		err = i.removeBuilt(filepath.Join(i.Target.Dir, dir), form, string(own))
		if err != nil {
			return err
		}
	}
	err = errors.Join(remove(path+".prev"), remove(path+".next"))
	if own == nil {
		return errors.Join(err, remove(path))
	}
	return errors.Join(err, os.Rename(path+theirs, path))
}

func (i *images) removeBuilt(dir string, form *regexp.Regexp, needed string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".") // as a lock has it, with or without an ending
		if e.Type().IsRegular() && form.MatchString(e.Name()) && !strings.Contains(needed, name) {
			err = errors.Join(err, remove(filepath.Join(dir, e.Name())))
		}
	}
	_ = os.Remove(dir) // there may be more in it, which isn't ours
	return err
}

// putBack makes the lock the one with a digest again, which the builder has kept.
func putBack(path, want string) error {
	if now, err := fileDigest(path); err != nil || now == want {
		return err
	}
	prev, err := fileDigest(path + ".prev")
	if err != nil {
		return err
	}
	if prev != want {
		return errors.New("the lock before is neither " + path + " nor " + path + ".prev")
	}
	return os.Rename(path+".prev", path)
}

// fileDigest is "" for a file that isn't there.
func fileDigest(path string) (string, error) {
	raw, err := regular.ReadFile(path, maxLock)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
