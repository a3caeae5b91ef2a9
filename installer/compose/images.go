package compose

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
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
	verb := "build "
	if i.Target.Bundle != "" {
		verb = "take " // nothing is built then
	}
	var changes []phase.Change
	for _, line := range why {
		changes = append(changes, phase.Change{Action: action, Target: i.Target.Lock(), Summary: verb + line})
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

// Acts of this phase. The first is noted with the digest of the lock before, "" without
// one; the second for each image, with its tag in the engine and, unless it is only there,
// its config's digest.
const (
	actImages = "images"
	actImage  = "image"
)

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
	if err := i.keepTheirs(tx); err != nil {
		return err
	}
	var besides []string
	act := phase.Act{Name: actImages, Data: map[string]string{"lock": before}}
	if err := tx.Act(act, func() (err error) { besides, err = i.Images.Build(ctx, show); return err }); err != nil {
		return err
	}
	return i.noteImages(tx, besides)
}

// noteImages notes what the lock has: what is built by then is known only by it. A process
// that is killed before leaves images, which the next one finds. What they are built on
// comes first, so that it goes last.
func (i *images) noteImages(tx phase.Tx, besides []string) error {
	for _, tag := range besides {
		act := phase.Act{Name: actImage, Key: tag, Stays: true, Keeps: "images in the engine"}
		if err := tx.Act(act, func() error { return nil }); err != nil {
			return err
		}
	}
	l, err := i.lock()
	if err != nil {
		return err
	}
	for img, p := range l.On(source.Host()) {
		act := phase.Act{
			Name: actImage, Key: tag(img.Name, p.Config), Stays: true, Keeps: "images in the engine and in quavon's store",
			Data: map[string]string{"config": p.Config},
		}
		if err := tx.Act(act, func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// Undo implements phase.Phase. The images themselves stay for the next time, unless
// everything is to go.
func (i *images) Undo(ctx context.Context, act phase.Act, how phase.How, _ phase.Reporter) error {
	path := i.Target.Lock()
	switch {
	case act.Name == actImage && how == phase.Purge:
		return i.forget(ctx, act)
	case act.Name == actImage:
		return nil
	case how != phase.Failed:
		return i.removeAll()
	case act.Data["lock"] != "":
		return putBack(path, act.Data["lock"])
	}
	return i.removeAll() // of a first build, as far as it came
}

// forget removes an image from the engine and from the store. Another installation may
// have the same, which its next job needs though nothing uses it now.
func (i *images) forget(ctx context.Context, act phase.Act) error {
	e, err := i.engine(ctx)
	if err != nil {
		return err
	}
	if theirs, err := i.others(ctx); err != nil || theirs != "" {
		return err
	}
	err = e.removeImage(ctx, act.Key)
	if config := act.Data["config"]; err == nil && i.Forget != nil && config != "" {
		err = i.Forget(ctx, config)
	}
	return err
}

// Restore implements phase.Restorer: images of the lock, also those that jobs run on, must
// still be there.
func (i *images) Restore(ctx context.Context, _ phase.Tx, _ phase.Reporter) error {
	l, err := i.lock()
	if err != nil {
		return err
	}
	e, err := i.engine(ctx)
	if err != nil {
		return err
	}
	if _, err := i.imageIDs(ctx, l); err != nil {
		return fault.Wrap(err, "go back", noWayBack)
	}
	for img := range l.On(source.Host()) {
		if img.Source != lock.SourceDockerDaemon {
			continue
		}
		if _, err := e.imageID(ctx, l, img.Name); err != nil {
			return fault.Wrap(err, "go back", noWayBack)
		}
	}
	return nil
}

const noWayBack = "put that image back, as with `docker load`; what is installed now stays"
