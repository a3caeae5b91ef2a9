package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/installer/compose"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
)

// installImages builds the images of an installation: those that images.yaml in its
// directory declares, else those that Quavon ships.
type installImages struct {
	*program
	target *phase.Target
	// secrets and network are as for `quavon build images`.
	secrets []string
	network string
}

var _ compose.Builder = (*installImages)(nil)

func (i *installImages) with(use func(b *imagebuild.Builder) error) (err error) {
	o := &buildImagesOptions{
		program: i.program, Lock: i.target.Lock(), DockerHost: "unix://" + i.target.Socket, Secrets: i.secrets, Network: i.network,
	}
	own := filepath.Join(i.target.Dir, declare.DefaultName)
	switch info, err := os.Stat(own); {
	case err == nil && !info.Mode().IsRegular():
		return fault.New(own+" is no file", "move it away, and put the declaration of the images there")
	case err == nil:
		o.File = own
	case errors.Is(err, fs.ErrNotExist):
		o.shipped = true
	default:
		return fault.Wrap(err, "look for the images' declaration", "make "+own+" readable")
	}
	b, done, err := o.builder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(), done()) }()
	return use(b)
}

// Stale implements compose.Builder.
func (i *installImages) Stale(ctx context.Context) (why []string, err error) {
	err = i.with(func(b *imagebuild.Builder) error {
		stale, err := b.Check(ctx, nil)
		for _, s := range stale {
			why = append(why, strings.TrimSpace(s.Image+" "+s.Platform)+": "+s.Why)
		}
		if err == nil && len(stale) > 0 {
			err = b.Ready(ctx)
		}
		return err
	})
	return why, err
}

// Build implements compose.Builder.
func (i *installImages) Build(ctx context.Context, show phase.Reporter) (bases []string, err error) {
	err = i.with(func(b *imagebuild.Builder) error {
		b.Events = imageEvents(show)
		r, err := b.Run(ctx, nil, false)
		if err != nil {
			return err
		}
		bases = r.Bases
		show.Line(fmt.Sprintf("%d images made, %d in %s", r.Made, len(r.After.Images), b.Lock))
		showUpgrade(b, r, show)
		return nil
	})
	return bases, err
}

// showUpgrade shows how images differ from those of the lock before, as `quavon build images
// --diff` does. A list of packages that is lost is no reason to stop.
func showUpgrade(b *imagebuild.Builder, r *imagebuild.Result, show phase.Reporter) {
	if r.Before == nil {
		return
	}
	changes, err := b.Diff(r.Before, r.After)
	if err != nil {
		show.Line("how the images differ from those before can't be shown: " + err.Error())
	}
	for _, c := range changes {
		var text strings.Builder
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		writeChange(w, c)
		_ = w.Flush() // into memory
		show.Line(text.String())
	}
}

// imageEvents shows what happens to images.
func imageEvents(show phase.Reporter) func(imagebuild.Event) {
	return func(e imagebuild.Event) {
		text := strings.TrimSpace(e.Image + " " + e.Platform + ": " + e.Text)
		switch {
		case e.Log != "":
		case e.Total > 0:
			show.Status(fmt.Sprintf("%s (%d of %d MiB)", text, e.Done>>20, e.Total>>20))
		default:
			show.Status(text)
		}
	}
}

// forgetImage removes an image from the store. One that a job runs on stays.
func forgetImage(ctx context.Context, config string) error {
	store, err := openImages()
	if err != nil {
		return err
	}
	r, err := store.Find(config)
	if err != nil {
		return nil //nolint:nilerr // it isn't there
	}
	if err := store.Remove(ctx, r); !errors.Is(err, image.ErrInUse) {
		return err
	}
	return nil
}
