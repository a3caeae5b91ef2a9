package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Commit makes all steps stand, and the phases done.
func (t *Tx) Commit() error {
	j := t.j
	for _, r := range t.p.Records {
		j.state.own(r)
	}
	j.state.Seq = t.p.Seq
	for _, name := range t.p.Phases {
		j.state.Phases[name] = Done{At: time.Now().UTC().Truncate(time.Second), Version: j.Version}
	}
	if err := j.saveState(); err != nil {
		return err
	}
	j.point("committed")
	return errors.Join(remove(filepath.Join(j.Dir, pendingName)), j.sweep())
}

// own adds a step to those that stand. One that goes on where the last of the same
// thing ended is the same step, made bigger.
func (s *state) own(r Record) {
	for i := len(s.Owned) - 1; i >= 0; i-- {
		o := &s.Owned[i]
		if !o.sameThing(r) {
			continue
		}
		switch {
		case r.Kind == kindAct && o.Left: // made anew, after what it may need
			s.Owned = slices.Delete(s.Owned, i, i+1)
			s.Owned = slices.Insert(s.Owned, s.behind(r), r)
			return
		case r.Kind == kindAct:
			o.Act = r.Act
		case r.Kind == kindLink && o.Is == r.Was:
			o.Is = r.Is
		case r.Kind == kindFile && o.After.same(r.Before):
			o.After = r.After
		case r.Kind == kindDir:
		default:
			s.Owned = append(s.Owned, r) // others have changed it in between
			return
		}
		if o.Kind == kindLink && o.Is == o.Was || o.Kind == kindFile && o.After.same(o.Before) {
			s.Owned = slices.Delete(s.Owned, i, i+1)
		}
		return
	}
	if r.Kind == kindAct {
		s.Owned = slices.Insert(s.Owned, s.behind(r), r)
		return
	}
	s.Owned = append(s.Owned, r)
}

// behind is where an act belongs: with the last of its name, since what came after that
// one, as a link to what it made, needs this one as well.
func (s *state) behind(r Record) int {
	for i := len(s.Owned) - 1; i >= 0; i-- {
		if o := s.Owned[i]; o.Kind == kindAct && o.Phase == r.Phase && o.Act.Name == r.Act.Name {
			return i + 1
		}
	}
	return len(s.Owned)
}

func (r Record) sameThing(o Record) bool {
	if r.Kind == kindAct && o.Kind == kindAct {
		return r.Phase == o.Phase && r.Act.Name == o.Act.Name && r.Act.Key == o.Act.Key
	}
	return r.Kind == o.Kind && r.Path == o.Path
}

// Backups.

func (j *Journal) backup(data []byte) error {
	dir := filepath.Join(j.Dir, backupDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, digest(data))
	if _, err := os.Lstat(path); err == nil {
		return nil // written whole, or it would have no name
	}
	return j.replace(path, data, look{Mode: 0o600, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
}

func (j *Journal) kept(contents string) ([]byte, error) {
	path := filepath.Join(j.Dir, backupDir, contents)
	l, err := read(path)
	switch {
	case err != nil:
		return nil, err
	case !l.Existed:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case l.Contents != contents:
		return nil, errors.New(path + " is damaged")
	}
	return l.data, nil
}

// sweep removes backups that nobody needs any more.
func (j *Journal) sweep() error {
	dir := filepath.Join(j.Dir, backupDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	needed := map[string]bool{}
	for _, r := range j.state.Owned {
		needed[r.Before.Contents], needed[r.After.Contents] = true, true
	}
	for _, e := range entries {
		if !needed[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
