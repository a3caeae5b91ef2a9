package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

type pullOptions struct {
	*program
	Ref       string
	Name      string
	PlainHTTP bool
}

func newImagesPull(p *program) *cobra.Command {
	o := &pullOptions{program: p}
	cmd := &cobra.Command{
		Use:   "pull [REPOSITORY@sha256:DIGEST]",
		Short: "Fetch an image by digest, or all images of the lock",
		Long: `Fetch an image from a registry by the digest of its index or manifest.
Tags are refused, since they can be moved. Credentials are those of "docker login".

Without an argument every registry image of images.lock.json is fetched.`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Ref = args[0]
			} else if o.Name != "" {
				return &usageError{cmd, fault.New("--name without a reference", "images of the lock have their names from there")}
			}
			if err := checkImageName(o.Name); err != nil {
				return &usageError{cmd, err}
			}
			return pull(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.Name, "name", "n", "", "name for quavon run --image; another image loses it")
	cmd.Flags().BoolVar(&o.PlainHTTP, "plain-http", false, "also talk to a registry that has no https")
	return cmd
}

func pull(ctx context.Context, o *pullOptions) error {
	s, err := openImages()
	if err != nil {
		return err
	}
	if o.Ref == "" {
		return pullLock(ctx, o, s)
	}
	_, err = o.fetch(ctx, s, o.Ref, o.Name)
	return err
}

// fetch pulls one image.
func (o *pullOptions) fetch(ctx context.Context, s *image.Store, ref, name string) (*image.Record, error) {
	img, err := source.Registry(ctx, ref, source.Host(), source.RegistryOptions{PlainHTTP: o.PlainHTTP})
	if err != nil {
		return nil, pullFault(err, ref)
	}
	r, err := o.add(ctx, s, img, name)
	return r, errors.Join(err, img.Close())
}

func pullFault(err error, ref string) error {
	if fault.Hint(err) != "" {
		return err
	}
	hint := "name the image for this platform by its digest"
	if errors.Is(err, source.ErrNotImage) {
		hint = "name the digest of an image or of its index"
	}
	return fault.Wrap(err, "can't pull "+ref, hint)
}

// pullLock pulls the lock's images from registries, and checks that they are
// what the lock says.
func pullLock(ctx context.Context, o *pullOptions, s *image.Store) error {
	l, err := o.require(s)
	if err != nil {
		return err
	}
	if l == nil {
		return fault.New("there is no "+lock.DefaultName+" here", "name an image: quavon images pull REPOSITORY@sha256:…")
	}
	for _, img := range l.Images {
		_, p := l.Find(img.Name, source.Host())
		switch {
		case img.Source != lock.SourceRegistry:
			o.note("skipped %s: it comes from the source %s; use quavon images import", img.Name, img.Source)
			continue
		case p == nil:
			return fault.New(fmt.Sprintf("the lock has no %s of %s", source.Host(), img.Name), "build it for this platform")
		}
		// From the index on, if there is one: it may be what was signed.
		r, err := o.fetch(ctx, s, img.Ref+"@"+cmp.Or(img.Index, p.Manifest), img.Name)
		if err != nil {
			return err
		}
		if r.Config.String() != p.Config || !sameHashes(r.DiffIDs, p.DiffIDs) {
			return fault.New("the image "+img.Name+" has another config or other layers than the lock says",
				"the lock contradicts itself: restore it from version control")
		}
		if err := keepSignature(ctx, s, r, p.Signature); err != nil {
			return err
		}
	}
	return nil
}

// keepSignature brings the signature of a pulled image from beside the lock into
// the store, where it is checked whenever the image is used.
func keepSignature(ctx context.Context, s *image.Store, r *image.Record, want *lock.Signature) error {
	if want == nil {
		return nil
	}
	if b, err := s.Bundle(want.Bundle); err == nil {
		if _, err := s.AddBundle(b); err != nil {
			return err
		}
	}
	return s.Verify(ctx, r, false)
}

func sameHashes(have []v1.Hash, want []string) bool {
	if len(have) != len(want) {
		return false
	}
	for i := range have {
		if have[i].String() != want[i] {
			return false
		}
	}
	return true
}

// daemonPrefix marks an image of the Docker daemon, as other tools have it.
const daemonPrefix = "docker-daemon:"

type importOptions struct {
	*program
	From   string
	Name   string
	Ref    string
	Digest string
}

func newImagesImport(p *program) *cobra.Command {
	o := &importOptions{program: p}
	cmd := &cobra.Command{
		Use:   "import PATH | docker-daemon:IMAGE",
		Short: "Import an image from a file, a directory or the Docker daemon",
		Long: `Import an image from an OCI layout (a directory or a tar), from what "docker save"
wrote, packed or not, or from the Docker daemon.`,
		Example: `  quavon images import --name app app.tar
  quavon images import --digest sha256:… layout/
  quavon images import --name app docker-daemon:app:latest`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.From = args[0]
			if err := checkImageName(o.Name); err != nil {
				return &usageError{cmd, err}
			}
			return importImage(cmd, o)
		},
	}
	cmd.Flags().StringVarP(&o.Name, "name", "n", "", "name for quavon run --image; another image loses it")
	cmd.Flags().StringVar(&o.Digest, "digest", "", "digest of the index, manifest or config, when PATH holds several images, or to be sure")
	cmd.Flags().StringVar(&o.Ref, "ref", "", "name of the image in PATH, when it holds several")
	return cmd
}

func importImage(cmd *cobra.Command, o *importOptions) error {
	ctx := cmd.Context()
	sel := source.Select{Name: o.Ref, Platform: source.Host()}
	if o.Digest != "" {
		var err error
		if sel.Digest, err = v1.NewHash(o.Digest); err != nil {
			return &usageError{cmd, fault.Wrap(err, "--digest "+o.Digest, "write sha256: and 64 hexadecimal digits")}
		}
	}
	s, err := openImages()
	if err != nil {
		return err
	}
	img, err := o.open(ctx, sel, s.Scratch())
	if err != nil {
		return err
	}
	_, err = o.add(ctx, s, img, o.Name)
	return errors.Join(err, img.Close())
}

func (o *importOptions) open(ctx context.Context, sel source.Select, scratch string) (*source.Image, error) {
	if ref, is := strings.CutPrefix(o.From, daemonPrefix); is {
		return source.Daemon(ctx, ref, sel, scratch)
	}
	return source.File(ctx, o.From, sel, scratch)
}
