package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox"
)

// lock compares the images with the lock, whole.
func (s *localSandbox) lock(ctx context.Context) (f doctor.Finding) {
	if !s.Local {
		return doctor.Unknown(errNoRunners)
	}
	if d := s.ownImages(); d != nil {
		return s.detachedLock(ctx, d)
	}
	store, err := s.images()
	if err != nil {
		return doctor.Unknown(err)
	}
	l, err := s.require(store)
	if err != nil {
		return failedOn(err)
	}
	if l == nil {
		return doctor.Skipped("there is no " + s.lockFile() + " here, and " + lock.EnvFile + " names none")
	}
	v := &imagebuild.Verifier{
		Store: store, Dir: filepath.Dir(s.lockFile()),
		Connect: func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, "") },
	}
	defer func() {
		if err := v.Close(); err != nil && f.State == doctor.Pass {
			f = doctor.Unknown(err)
		}
	}()
	var wrong, unsure []string
	checked := 0
	for img, p := range l.On(source.Host()) {
		checked++
		errs := v.Image(ctx, img, p)
		if r, err := store.Find(p.Config); err == nil {
			errs = append(errs, store.Verify(ctx, r, true))
		}
		for _, err := range errs {
			switch {
			case err == nil:
			case errors.Is(err, imagebuild.ErrNotChecked):
				unsure = append(unsure, img.Name+": "+err.Error())
			default:
				wrong = append(wrong, img.Name+": "+err.Error())
			}
		}
	}
	return lockFinding(ctx, checked, wrong, unsure)
}

// ownImages is the backend of a runner that looks at itself, if that has the images and
// not the runner: such a runner has neither a store nor the files beside the lock.
func (s *localSandbox) ownImages() sandbox.Detached {
	if s.test == nil {
		return nil
	}
	return sandbox.AsDetached(s.runner.Backend)
}

// detachedLock compares what the backend has with the lock: each image's digest and layers.
func (s *localSandbox) detachedLock(ctx context.Context, d sandbox.Detached) doctor.Finding {
	l, err := s.readLock()
	if err != nil {
		return failedOn(err)
	}
	if l == nil {
		return doctor.Skipped("there is no " + s.lockFile() + " here, and " + lock.EnvFile + " names none")
	}
	var wrong []string
	checked := 0
	for img, p := range l.On(source.Host()) {
		checked++
		if _, err := d.FindImage(ctx, p.Config); err != nil {
			wrong = append(wrong, img.Name+": "+err.Error())
		}
	}
	f := lockFinding(ctx, checked, wrong, nil)
	if f.State == doctor.Pass {
		f.Message = fmt.Sprintf("%d images of the backend are as the lock says", checked)
	}
	return f
}

func lockFinding(ctx context.Context, checked int, wrong, unsure []string) doctor.Finding {
	switch {
	case ctx.Err() != nil:
		return doctor.Unknown(context.Cause(ctx))
	case len(wrong) > 0:
		return doctor.Failed("images aren't what the lock says", "", append(wrong, unsure...)...)
	case len(unsure) > 0:
		f := doctor.Unknown(errors.New("not all of the lock's images could be looked at"))
		f.Details = unsure
		return f
	case checked == 0:
		return doctor.Skipped("the lock has no image for this platform")
	}
	return doctor.Passed(fmt.Sprintf("%d images are as the lock says, read whole", checked))
}
