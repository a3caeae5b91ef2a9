package commands

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/state"
)

// openImages opens the store in the state directory.
func openImages() (*image.Store, error) {
	dir, err := state.Default()
	if err != nil {
		return nil, err
	}
	st, err := state.Open(dir)
	if err != nil {
		return nil, err
	}
	return image.OpenStore(st.Path("images"))
}

// findImage looks up --image and hands the runner its store.
func (o *runOptions) findImage(ctx context.Context, r *runner.Runner) (err error) {
	if o.Image == "" {
		return nil
	}
	if d := sandbox.AsDetached(r.Backend); d != nil {
		o.image, err = o.detachedImage(ctx, d, o.Image)
		return err
	}
	if r.Images, err = openImages(); err != nil {
		return err
	}
	o.image, err = o.imageNamed(r.Images, o.Image)
	return err
}

// imageNamed finds an image of the store. What the lock says of a name counts
// more than the store's own names: it pins a digest.
func (p *program) imageNamed(s *image.Store, name string) (*image.Record, error) {
	l, err := p.require(s)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return s.Find(name)
	}
	_, pinned := l.Find(name, source.Host())
	if pinned == nil {
		return s.Find(name)
	}
	r, err := s.Find(pinned.Config)
	if err != nil {
		return nil, fault.Wrap(err, "the lock's image "+name+" isn't in the store", "run `quavon images pull`").
			WithCode(string(job.ReasonImageUnknown))
	}
	return r, nil
}

// require makes the store refuse images that aren't signed as the lock says, and
// returns the lock as readLock does.
func (p *program) require(s *image.Store) (*lock.File, error) {
	l, err := p.readLock()
	if err == nil {
		s.Require(l, filepath.Join(filepath.Dir(p.lockFile()), signature.Dir))
	}
	return l, err
}

// readLock reads the lock file, nil when there is none and none is named.
func (p *program) readLock() (*lock.File, error) {
	path := p.lockFile()
	if p.env(lock.EnvFile) == "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return lock.Read(path)
}

// lockFile is where the lock is looked for.
func (p *program) lockFile() string { return cmp.Or(p.env(lock.EnvFile), lock.DefaultName) }

// root is where the job's root file system comes from.
func (o *runOptions) root() job.Root {
	if o.image == nil {
		return job.Root{Kind: job.RootHost}
	}
	return job.Root{Kind: job.RootImage, Image: o.image.Config.String(), User: o.User}
}

// argv is the command to run: what was typed, else the image's own. A typed
// command is not handed to the image's entrypoint.
func (o *runOptions) argv() ([]string, error) {
	if len(o.Argv) > 0 || o.image == nil {
		return o.Argv, nil
	}
	own := append(append([]string(nil), o.image.Run.Entrypoint...), o.image.Run.Cmd...)
	if len(own) == 0 {
		return nil, fault.New("the image "+o.Image+" names no command", "write one behind --").WithCode(string(job.ReasonRejected))
	}
	return own, nil
}
