package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func (j *Journal) undoLink(r Record) []Standing {
	is, err := linkAt(r.Path)
	switch {
	case err != nil:
		return []Standing{{What: r.Path + " was changed since, and stays"}}
	case is == r.Was:
		return failed(r.Path, remove(temporary(r.Path)))
	case is != r.Is:
		return []Standing{{What: r.Path + " points elsewhere by now, and stays"}}
	case r.Was == "":
		return failed(r.Path, remove(r.Path))
	}
	return failed(r.Path, j.link(r.Was, r.Path))
}

func (j *Journal) undoFile(r Record) []Standing {
	if err := remove(temporary(r.Path)); err != nil && !errors.Is(err, unix.ENOTDIR) {
		return failed(r.Path, err)
	}
	path, err := now(r.Path)
	if err != nil {
		return j.stays(r)
	}
	at, err := read(path)
	switch {
	case err != nil:
		return failed(r.Path, err)
	case at.same(r.Before):
		return nil
	case at.same(r.After):
		return failed(r.Path, j.restore(path, r))
	}
	return j.revert(path, r, at)
}

// now is where a file is by now: somebody may have made a link of it since. An error says
// that the link leads nowhere.
func now(path string) (string, error) {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil //nolint:nilerr // reading it tells
	}
	return resolve(path)
}

func (l look) same(o look) bool { return l.Existed == o.Existed && l.Contents == o.Contents }

func (j *Journal) restore(path string, r Record) error {
	if !r.Before.Existed {
		return remove(path)
	}
	data, err := j.kept(r.Before.Contents)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return j.replace(path, data, r.Before)
}

// revert takes our change out of a file that others have changed since. Where that
// can't be done the file stays.
func (j *Journal) revert(path string, r Record, now look) []Standing {
	if !now.Existed {
		return nil // somebody has removed it, which is what we wanted or their business
	}
	if f := j.reverter(r.Path); f != nil && r.After.Existed {
		next, ok, err := j.reverted(f, r, now)
		switch {
		case err != nil:
			return failed(r.Path, err)
		case ok && next == nil:
			return failed(r.Path, remove(path))
		case ok:
			return failed(r.Path, j.replace(path, next, now))
		}
	}
	return j.stays(r)
}

// stays says that a file stays as somebody has changed it, and puts what was there before
// where it is found.
func (j *Journal) stays(r Record) []Standing {
	s := Standing{What: r.Path + " was changed since, and stays"}
	if !r.Before.Existed {
		return []Standing{s}
	}
	data, err := j.kept(r.Before.Contents)
	if err != nil {
		return failed(r.Path, err)
	}
	// With the digest: one file may have more than one, and a clock go back.
	name := filepath.Base(r.Path) + "." + time.Now().UTC().Format("20060102T150405Z") + "." + r.Before.Contents[:8]
	path := filepath.Join(j.Dir, keptDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failed(r.Path, err)
	}
	if err := j.replace(path, data, look{Mode: 0o600, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}); err != nil {
		return failed(r.Path, err)
	}
	s.Do = fmt.Sprintf("diff %s %s", path, r.Path)
	return []Standing{s}
}

func (j *Journal) reverted(f Revert, r Record, now look) (next []byte, ok bool, err error) {
	var before []byte
	if r.Before.Existed {
		if before, err = j.kept(r.Before.Contents); err != nil {
			return nil, false, err
		}
	}
	after, err := j.kept(r.After.Contents)
	if err != nil {
		return nil, false, err
	}
	return f(before, after, now.data)
}

func (j *Journal) reverter(path string) Revert {
	if j.Revert == nil {
		return nil
	}
	return j.Revert(path)
}
