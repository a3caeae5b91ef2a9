package compose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/image/lock"
)

// images is the phase that makes the images and their lock.
type images struct{ *stack }

var (
	_ phase.Phase    = (*images)(nil)
	_ phase.Keeper   = (*images)(nil)
	_ phase.Restorer = (*images)(nil)
)

// Name implements phase.Phase.
func (*images) Name() string { return phase.Images }

// Files implements phase.Keeper.
func (i *images) Files() []string { return []string{i.Target.Lock()} }

// Plan implements phase.Phase.
func (i *images) Plan(ctx context.Context) ([]phase.Change, error) {
	why, err := i.stale(ctx)
	if err != nil {
		return nil, err
	}
	action := phase.Edit
	if _, err := os.Stat(i.Target.Lock()); errors.Is(err, fs.ErrNotExist) {
		action = phase.Create
	}
	var changes []phase.Change
	for _, line := range why {
		changes = append(changes, phase.Change{Action: action, Target: i.Target.Lock(), Summary: "build " + line})
	}
	return changes, nil
}

// stale says why images must be built: the lock isn't what is wanted, or the engine
// lacks what the lock has.
func (i *images) stale(ctx context.Context) ([]string, error) {
	why, err := i.Images.Stale(ctx)
	if err != nil || len(why) > 0 {
		return why, err
	}
	l, err := i.lock()
	if err != nil {
		return nil, err
	}
	e, err := i.engine(ctx)
	if err != nil {
		return nil, err
	}
	for _, img := range l.Images {
		if img.Source != lock.SourceDockerDaemon {
			continue
		}
		if _, err := e.imageID(ctx, l, img.Name); err != nil {
			why = append(why, img.Name+": "+err.Error())
		}
	}
	return why, nil
}

// actImages is noted with the digest of the lock before, "" without one.
const actImages = "images"

// Apply implements phase.Phase.
func (i *images) Apply(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	why, err := i.stale(ctx)
	if err != nil || len(why) == 0 {
		return err
	}
	before, err := fileDigest(i.Target.Lock())
	if err != nil {
		return err
	}
	return tx.Act(phase.Act{Name: actImages, Data: map[string]string{"lock": before}}, func() error { return i.Images.Build(ctx, show) })
}

// Undo implements phase.Phase. The images themselves stay for the next time, unless
// everything is to go.
func (i *images) Undo(ctx context.Context, act phase.Act, how phase.How, _ phase.Reporter) error {
	path := i.Target.Lock()
	if how == phase.Failed && act.Data["lock"] != "" {
		return putBack(path, act.Data["lock"])
	}
	if how == phase.Purge {
		if err := i.purge(ctx); err != nil {
			return err
		}
	}
	if how == phase.Failed {
		return remove(path)
	}
	return errors.Join(remove(path), remove(path+".prev"), remove(path+".next"), i.removeLists())
}

// purge removes the images from the engine.
func (i *images) purge(ctx context.Context) error {
	e, err := i.engine(ctx)
	if err != nil {
		return err
	}
	for _, path := range []string{i.Target.Lock(), i.Target.Lock() + ".prev"} {
		l, err := lock.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = e.removeImages(ctx, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeLists removes the lists of packages that the builder has written beside the lock.
func (i *images) removeLists() error {
	dir := filepath.Join(i.Target.Dir, "images")
	lists, err := filepath.Glob(filepath.Join(dir, "*.cdx.json"))
	for _, path := range lists {
		err = errors.Join(err, remove(path))
	}
	_ = os.Remove(dir) // there may be more in it, which isn't ours
	return err
}

// Restore implements phase.Restorer: images of the lock must still be there.
func (i *images) Restore(ctx context.Context, _ phase.Tx, _ phase.Reporter) error {
	l, err := i.lock()
	if err == nil {
		_, err = i.imageIDs(ctx, l)
	}
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
	raw, err := os.ReadFile(path)
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
