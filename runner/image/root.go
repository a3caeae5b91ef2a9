package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Root is an image in use: it can't be removed before Close.
type Root struct {
	*Record
	// Path of the EROFS image on the host.
	Path string
	file *os.File
}

// Close lets the store remove the image.
//
// The lock ends here: a process that is being started meanwhile has the file until its own
// program runs, and the image would stay in use as long.
func (r *Root) Close() error {
	return errors.Join(unix.Flock(int(r.file.Fd()), unix.LOCK_UN), r.file.Close())
}

// errChanged is a root that isn't what was made.
var errChanged = errors.New("the file isn't what the import made")

// Open takes the image that ref names into use; see Find. A root that may have
// changed since it was last checked is hashed first. An image that isn't signed
// as the lock says is refused; see Require.
func (s *Store) Open(ctx context.Context, ref string) (*Root, error) {
	for {
		r, err := s.Find(ref)
		if err != nil {
			return nil, err
		}
		if err := s.signed(ctx, r); err != nil {
			return nil, err
		}
		f, err := s.openRoot(r)
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Stat(s.record(r.Config)); errors.Is(gone, fs.ErrNotExist) {
				continue // removed meanwhile
			}
		}
		if err == nil {
			err = s.recheck(ctx, r, f)
			if err == nil {
				return &Root{r, s.root(r.Config), f}, nil
			}
			err = errors.Join(err, f.Close())
		}
		return nil, broken(err, r)
	}
}

func broken(err error, r *Record) error {
	return fault.Wrap(err, "can't use the image "+r.Config.String(),
		"remove it with `quavon images rm "+r.Config.Hex[:12]+"` and import it again").WithCode(string(job.ReasonImageUnknown))
}

// openRoot opens and locks a root; the file is the one the name stands for.
func (s *Store) openRoot(r *Record) (*os.File, error) {
	path := s.root(r.Config)
	for {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := Identify(f)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err == nil && st.Ino == mine.Inode && st.Dev == mine.Dev {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// recheck hashes a root that may have changed, and notes that it hasn't.
func (s *Store) recheck(ctx context.Context, r *Record, f *os.File) error {
	if check(r, f) == nil {
		return nil
	}
	l, err := s.lock(ctx, r.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	fresh, err := readRecord(s.record(r.Config))
	if err != nil {
		return err
	}
	fresh.Names = r.Names
	*r = *fresh
	if check(r, f) == nil {
		return nil
	}
	if err := checkDeep(ctx, r, f); err != nil {
		return err
	}
	return r.write(s.record(r.Config))
}

// check compares a root's identity with its record.
func check(r *Record, f *os.File) error {
	now, err := Identify(f)
	if err == nil && now != r.Root.Seen {
		err = errChanged
	}
	return err
}

// checkDeep compares a root's content with its record, and then brings the
// record's identity up to date.
func checkDeep(ctx context.Context, r *Record, f *os.File) error {
	before, err := Identify(f)
	if err != nil {
		return err
	}
	if before.Size != r.Root.Size {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errChanged, before.Size, r.Root.Size)
	}
	sum, err := new(treeHash).finish(ctx, f)
	if err != nil {
		return err
	}
	after, err := Identify(f)
	if err != nil {
		return err
	}
	if sum != r.Root.Hash || after != before {
		return fmt.Errorf("%w: its hash is %s instead of %s", errChanged, sum, r.Root.Hash)
	}
	r.Root.Seen = before
	return nil
}

// Verify checks one image, deep by reading all of its root.
func (s *Store) Verify(ctx context.Context, r *Record, deep bool) error {
	if err := errors.Join(s.signed(ctx, r), s.basesSigned(ctx, r)); err != nil {
		return err
	}
	f, err := s.openRoot(r)
	if err != nil {
		return broken(err, r)
	}
	defer f.Close()
	if deep {
		err = checkDeep(ctx, r, f)
	} else {
		err = s.recheck(ctx, r, f)
	}
	if err != nil {
		return broken(err, r)
	}
	return nil
}
