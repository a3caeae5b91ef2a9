package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// oldDir is the part of the stage that keeps what is replaced.
const oldDir = "replaced"

// apply prepares all content, then puts it in place. On an error, or when the
// context ends before the first rename, the directory is as it was.
func (p *plan) apply(ctx context.Context) error {
	if len(p.removes)+len(p.makes) == 0 {
		return nil
	}
	s := &stage{root: p.host.root, name: stagePrefix + strconv.FormatUint(rand.Uint64(), 36)}
	if err := s.root.Mkdir(s.name, 0o700); err != nil {
		return err
	}
	err := p.prepare(ctx, s)
	if err == nil {
		err = p.commit(s)
	}
	if err != nil {
		if undoErr := s.undo(); undoErr != nil {
			return errors.Join(err, undoErr) // the stage holds files that belong elsewhere
		}
	}
	return errors.Join(err, s.root.RemoveAll(s.name))
}

// prepare brings all content to the stage, several files at a time: file
// systems put what waits for the disk together.
func (p *plan) prepare(ctx context.Context, s *stage) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, m := range p.makes {
		if m.Mode == ModeDir {
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return wrap(m.Path, s.prepare(i, m, ownerOf(m.was, p.host.self)))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.root.Mkdir(s.name+"/"+oldDir, 0o700)
}

// commit does the renames.
func (p *plan) commit(s *stage) error {
	for _, r := range p.removes {
		if err := wrap(r.Path, s.remove(r)); err != nil {
			return err
		}
	}
	for i, m := range p.makes {
		err := s.parents(path.Dir(m.Path), p.host.self)
		switch {
		case err != nil:
		case m.Mode == ModeDir:
			err = s.mkdir(m.Path, m.Perm, p.host.self)
		default:
			err = s.place(i, m)
		}
		if err != nil {
			return wrap(m.Path, err)
		}
	}
	return s.finish()
}

// owner is a pair of ids, or none to set.
type owner struct{ uid, gid int }

// ownerOf keeps a replaced file's owner and gives new files that of the
// directory. Only root can give files away.
func ownerOf(was, dir fs.FileInfo) owner {
	if os.Geteuid() != 0 {
		return owner{-1, -1}
	}
	if was == nil {
		was = dir
	}
	st := stat(was)
	return owner{int(st.Uid), int(st.Gid)}
}

// stage is a directory in the workspace from which files are renamed into
// place, and a log of how to take that back.
type stage struct {
	root  *os.Root
	name  string
	undos []func() error
	perms []func() error
}

func (s *stage) path(i int) string { return fmt.Sprintf("%s/%d", s.name, i) }

func (s *stage) old() string { return fmt.Sprintf("%s/%s/%d", s.name, oldDir, len(s.undos)) }

// prepare brings a file's content to the stage, safe on disk.
func (s *stage) prepare(i int, m step, o owner) error {
	if m.Mode == ModeLink {
		target, err := m.content.text()
		if err == nil {
			err = s.root.Symlink(target, s.path(i))
		}
		if err == nil && o.uid >= 0 {
			err = s.root.Lchown(s.path(i), o.uid, o.gid)
		}
		return err
	}
	f, err := s.root.OpenFile(s.path(i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, m.content.reader())
	if err == nil && o.uid >= 0 {
		err = f.Chown(o.uid, o.gid)
	}
	if err == nil {
		err = f.Chmod(m.Perm)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && m.ModTime.Before(time.Now()) {
		err = s.root.Chtimes(s.path(i), time.Time{}, m.ModTime)
	}
	return err
}

// remove moves a file away, or removes a directory that is empty by now.
func (s *stage) remove(r step) error {
	if err := s.unchanged(r); err != nil {
		return err
	}
	if r.Mode != ModeDir {
		return s.moveAway(r.Path)
	}
	if err := s.root.Remove(r.Path); err != nil {
		return err
	}
	s.undos = append(s.undos, func() error {
		o := ownerOf(r.was, r.was)
		err := s.root.Mkdir(r.Path, 0o700)
		if err == nil && o.uid >= 0 {
			err = s.root.Chown(r.Path, o.uid, o.gid)
		}
		return errors.Join(err, s.root.Chmod(r.Path, r.was.Mode()))
	})
	return nil
}

// place renames a prepared file into place. What it replaces is linked to the
// stage first, so that the path is never missing; where that can't be, moved.
func (s *stage) place(i int, m step) error {
	if err := s.unchanged(m); err != nil {
		return err
	}
	if m.was != nil {
		old := s.old()
		if s.root.Link(m.Path, old) != nil {
			if err := s.moveAway(m.Path); err != nil {
				return err
			}
		} else {
			s.undos = append(s.undos, func() error { return s.root.Rename(old, m.Path) })
			return s.root.Rename(s.path(i), m.Path)
		}
	}
	if err := s.root.Rename(s.path(i), m.Path); err != nil {
		return err
	}
	s.undos = append(s.undos, func() error { return s.root.Remove(m.Path) })
	return nil
}

func (s *stage) moveAway(name string) error {
	old := s.old()
	if err := s.root.Rename(name, old); err != nil {
		return err
	}
	s.undos = append(s.undos, func() error { return s.root.Rename(old, name) })
	return nil
}

// parents makes directories that the host has lost meanwhile.
func (s *stage) parents(dir string, self fs.FileInfo) error {
	if dir == "." {
		return nil
	}
	if err := s.parents(path.Dir(dir), self); err != nil {
		return err
	}
	return s.mkdir(dir, 0o755, self)
}

// mkdir makes a directory unless it is there. It gets its permissions in the
// end: they may forbid to write to it.
func (s *stage) mkdir(name string, perm fs.FileMode, self fs.FileInfo) error {
	fi, err := s.root.Lstat(name)
	if err == nil && fi.IsDir() {
		return nil
	}
	if err := s.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	s.undos = append(s.undos, func() error { return s.root.Remove(name) })
	s.perms = append(s.perms, func() error { return s.root.Chmod(name, perm) })
	if o := ownerOf(nil, self); o.uid >= 0 {
		return s.root.Lchown(name, o.uid, o.gid)
	}
	return nil
}

// unchanged makes sure that the host still has what was checked.
func (s *stage) unchanged(m step) error {
	now, err := s.root.Lstat(m.Path)
	switch {
	case m.was == nil && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case m.was == nil || !os.SameFile(now, m.was):
		return errors.New("was replaced while changes were written")
	case m.Mode != ModeDir && (now.Size() != m.was.Size() || !now.ModTime().Equal(m.was.ModTime())):
		return errors.New("changed while changes were written")
	}
	return nil
}

func (s *stage) finish() error {
	for i := range s.perms {
		if err := s.perms[len(s.perms)-1-i](); err != nil {
			return err
		}
	}
	return nil
}

// undo takes back the renames, the last one first.
func (s *stage) undo() error {
	var errs []error
	for i := range s.undos {
		errs = append(errs, s.undos[len(s.undos)-1-i]())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("could not take back all that was written, see %s: %w", s.name, err)
	}
	return nil
}

func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", quotePath(name), err)
}
