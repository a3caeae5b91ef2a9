package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/installer/compose"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/source"
)

// offlineOptions are the flags for an installation from a bundle.
type offlineOptions struct {
	Bundle string
	Keys   []string
}

func (o *offlineOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.Bundle, "offline", "", "take everything from this `FILE`, made by quavon build bundle, and nothing from elsewhere")
	f.StringArrayVar(&o.Keys, "offline-key", nil, "public key that the bundle must be signed with: a file, or a fingerprint")
}

// check refuses what only makes sense with a network.
func (o *offlineOptions) check(fetches ...string) error {
	switch {
	case o.Bundle == "" && len(o.Keys) > 0:
		return fault.New("--offline-key without --offline", "name the bundle with --offline")
	case o.Bundle != "" && strings.Join(fetches, "") != "":
		return fault.New("with --offline nothing is built or fetched", "leave out --runsc, --secret and --network")
	}
	return nil
}

// offline is an open bundle that an installation takes all from.
type offline struct {
	*program
	bundle *bundle.Bundle
	// dir has the bundle's programs in bin while the installation runs, in store's scratch.
	dir   string
	store *image.Store
}

// openOffline checks all of the bundle before anything is changed, and unpacks the
// programs. nil without a bundle.
func (o *installOptions) openOffline(ctx context.Context) (_ *offline, err error) {
	if o.Offline.Bundle == "" {
		return nil, nil
	}
	trust, err := bundle.ParseTrust(o.Offline.Keys, slices.Contains(o.Accept, bundle.UnsignedRisk))
	if err != nil {
		return nil, err
	}
	b, err := bundle.Open(ctx, o.Offline.Bundle, trust)
	if err != nil {
		return nil, err
	}
	f := &offline{program: o.program, bundle: b}
	if err := f.prepare(ctx); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *offline) prepare(ctx context.Context) error {
	if err := f.verify(ctx, f.bundle); err != nil {
		return err
	}
	if err := f.checkSelf(); err != nil {
		return err
	}
	var err error
	if f.store, err = openImages(); err != nil {
		return err
	}
	if f.dir, err = os.MkdirTemp(f.store.Scratch(), "offline-"); err != nil {
		return fault.Wrap(err, "unpack "+f.bundle.Path, "make "+f.store.Scratch()+" writable for you")
	}
	return f.bundle.Extract(ctx, bundle.Bin(source.Host().String()), filepath.Join(f.dir, "bin"))
}

// checkSelf wants this program to be the bundle's: the services are, and both must be
// the same.
func (f *offline) checkSelf() error {
	here := source.Host().String()
	dir := bundle.Bin(here)
	want := f.bundle.Manifest.Member(dir + bundle.Quavon)
	if want == nil {
		return fault.New(f.bundle.Path+" has nothing for "+here+", only for "+strings.Join(f.bundle.Manifest.Platforms, ", "),
			"have one made for this host: `quavon build bundle --platform "+here+"`")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sum, err := disk.Sum(self)
	if err != nil {
		return err
	}
	if sum != want.SHA256 {
		return fault.New("this program isn't the quavon "+f.bundle.Manifest.Version+" that is in "+f.bundle.Path,
			fmt.Sprintf("`tar -xf %s %s`, and run the quavon in %[2]s", f.bundle.Path, strings.TrimSuffix(dir, "/")))
	}
	return nil
}

// path of one of the bundle's programs.
func (f *offline) path(name string) string { return filepath.Join(f.dir, "bin", name) }

func (f *offline) close() error {
	if f == nil {
		return nil
	}
	err := f.bundle.Close()
	if f.dir != "" {
		err = errors.Join(err, os.RemoveAll(f.dir))
	}
	return err
}

// offlineImages takes the images of an installation from its bundle.
type offlineImages struct {
	*offline
	target *phase.Target
}

var _ compose.Builder = (*offlineImages)(nil)

func (i *offlineImages) with(use func(*imagebuild.Unpacker) error) (err error) {
	u := &imagebuild.Unpacker{
		Bundle: i.bundle, Lock: i.target.Lock(), Store: i.store,
		Connect: func(ctx context.Context) (*engine.Engine, error) {
			return engine.Connect(ctx, "unix://"+i.target.Socket)
		},
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	return use(u)
}

// Stale implements compose.Builder.
func (i *offlineImages) Stale(ctx context.Context) (why []string, err error) {
	err = i.with(func(u *imagebuild.Unpacker) error {
		why, err = u.Stale(ctx)
		return err
	})
	return why, err
}

// Build implements compose.Builder: it builds nothing, and asks no network.
func (i *offlineImages) Build(ctx context.Context, show phase.Reporter) ([]string, error) {
	return nil, i.with(func(u *imagebuild.Unpacker) error {
		u.Events = imageEvents(show)
		r, err := u.Run(ctx)
		if err != nil {
			return err
		}
		show.Line(fmt.Sprintf("%d images taken from %s, %d in %s", r.Made, i.bundle.Path, len(r.After.Images), u.Lock))
		showUpgrade(&imagebuild.Builder{Lock: u.Lock}, r, show)
		return nil
	})
}
