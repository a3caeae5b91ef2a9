package imagebuild

import (
	"context"
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/service"
	"github.com/quavon/quavon/runner/fault"
)

func (b *Builder) executable(p v1.Platform) (*service.Executable, error) {
	e := b.Executables[p.Architecture]
	if e == nil {
		return nil, fault.New("there is no executable of quavon for "+p.String(), "name one with --executable")
	}
	return e, nil
}

// own makes the image of our own services and has the engine load it.
func (b *Builder) own(ctx context.Context, i *declare.Image, p v1.Platform) (m *made, err error) {
	program, err := b.executable(p)
	if err != nil {
		return nil, err
	}
	e, err := b.docker(ctx)
	if err != nil {
		return nil, err
	}
	img, done, err := program.Image(ctx, b.Store.Scratch())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	id, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	at, err := e.LoadImage(ctx, img, Tag(i.Name, id.String()), b.Store.Scratch())
	if err != nil {
		return nil, err
	}
	if m, err = b.take(ctx, e, i, p, at.ID); err == nil && m.platform.Config != id.String() {
		err = errors.New("the engine made another image of what it was sent")
	}
	return m, err
}

// outdated says whether a locked image was made of another program than this one.
func (b *Builder) outdated(ctx context.Context, i *declare.Image, p v1.Platform, config string) (bool, error) {
	if i.Executable == "" {
		return false, nil
	}
	program, err := b.executable(p)
	if err != nil {
		return false, err
	}
	now, err := program.Config(ctx)
	return err == nil && now.String() != config, err
}
