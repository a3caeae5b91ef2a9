package commands

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/source"
)

// rootfsSource says where an image's layers are read. The store itself hasn't got
// them: it keeps what gVisor can read of an image.
type rootfsSource struct {
	Image string
	// Source is where to read an image of the store, "" for where it came from.
	Source      string
	Digest, Ref string
	Platform    string
	PlainHTTP   bool
}

func (o *rootfsSource) flags(f *pflag.FlagSet) {
	f.StringVar(&o.Source, "source", "", "where to read the layers of an image of the store, when not from where it came")
	f.StringVar(&o.Digest, "digest", "", "digest of the index, manifest or config, when PATH holds several images")
	f.StringVar(&o.Ref, "ref", "", "name of the image in PATH, when it holds several")
	f.StringVar(&o.Platform, "platform", source.Host().String(), "platform to choose from an index")
	f.BoolVar(&o.PlainHTTP, "plain-http", false, "also talk to a registry that has no https")
}

// direct says whether an image is named by the place it is in.
func direct(ref string) bool {
	return strings.HasPrefix(ref, daemonPrefix) || strings.Contains(ref, "/")
}

// find looks into the store, and returns nil for an image that is named by its place.
// A file in the working directory may go by its bare name when the store has none.
func (o *rootfsSource) find(p *program, s *image.Store) (*image.Record, error) {
	if direct(o.Image) {
		if o.Source != "" {
			return nil, fault.New("--source, and an image named by its place", "use --source with images of the store")
		}
		return nil, nil
	}
	r, err := p.imageNamed(s, o.Image)
	if err != nil && o.Source == "" {
		if _, here := os.Stat(o.Image); here == nil {
			return nil, nil
		}
	}
	return r, err
}

// open reads an image's documents; r is its record in the store, or nil.
func (o *rootfsSource) open(ctx context.Context, s *image.Store, r *image.Record) (*source.Image, error) {
	if r == nil {
		sel, err := o.selection()
		if err != nil {
			return nil, err
		}
		return o.at(ctx, o.Image, sel, s)
	}
	var errs []error
	for _, origin := range o.origins(r) {
		img, err := o.at(ctx, origin.From, source.Select{Digest: digestOf(origin, r), Platform: r.Platform}, s)
		if err == nil && img.Config != r.Config {
			err = errors.Join(fault.New(origin.From+" has another image now", ""), img.Close())
		}
		if err == nil {
			return img, nil
		}
		errs = append(errs, err)
	}
	return nil, fault.Wrap(errors.Join(errs...), "can't read the layers of "+called(r)+" again",
		"say where they are: --source PATH, docker-daemon:IMAGE or REPOSITORY@sha256:…")
}

// origins are where to look for an image: --source, under each digest that the image
// is known by, else all places it came from.
func (o *rootfsSource) origins(r *image.Record) []image.Origin {
	if o.Source == "" {
		return r.Origins
	}
	list := []image.Origin{{From: o.Source}}
	for _, origin := range r.Origins {
		if origin.Manifest != "" {
			list = append(list, image.Origin{From: o.Source, Manifest: origin.Manifest})
		}
	}
	return list
}

// digestOf is what an image goes by in a place: its manifest, or its config where
// there is none.
func digestOf(o image.Origin, r *image.Record) v1.Hash {
	if h, err := v1.NewHash(o.Manifest); err == nil {
		return h
	}
	return r.Config
}

func (o *rootfsSource) selection() (source.Select, error) {
	sel := source.Select{Name: o.Ref}
	platform, err := v1.ParsePlatform(o.Platform)
	if err != nil {
		return sel, fault.Wrap(err, "--platform "+o.Platform, "write OS/ARCHITECTURE, such as linux/amd64")
	}
	sel.Platform = *platform
	if o.Digest != "" {
		if sel.Digest, err = v1.NewHash(o.Digest); err != nil {
			return sel, fault.Wrap(err, "--digest "+o.Digest, "write sha256: and 64 hexadecimal digits")
		}
	}
	return sel, nil
}

// at opens the image that is in a place.
func (o *rootfsSource) at(ctx context.Context, place string, sel source.Select, s *image.Store) (*source.Image, error) {
	if ref, is := strings.CutPrefix(place, daemonPrefix); is {
		return source.Daemon(ctx, ref, sel, s.Scratch())
	}
	_, err := os.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(place, "/") && !strings.HasPrefix(place, ".") {
		img, err := source.Registry(ctx, place, sel.Platform, source.RegistryOptions{PlainHTTP: o.PlainHTTP})
		if err != nil {
			return nil, pullFault(err, place)
		}
		return img, nil
	}
	return source.File(ctx, place, sel, s.Scratch())
}
