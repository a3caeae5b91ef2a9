package commands

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

type imagesVerifyOptions struct {
	*program
	Names      []string
	Deep       bool
	DockerHost string
}

func newImagesVerify(p *program) *cobra.Command {
	o := &imagesVerifyOptions{program: p}
	cmd := &cobra.Command{
		Use:   "verify [IMAGE...]",
		Short: "Check that images are what they were, and what the lock says",
		Long: `Check images, all of them without an argument. A root file that was not touched since
it was last checked is taken as unchanged; with --deep all of it is read. Signatures
that the lock names are checked again, without any network.

Images of the lock must be there, in the store and, when they were built, in the Docker
Engine, with the layers that the lock says. The files beside the lock are read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Names = args
			return verifyImages(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Deep, "deep", false, "compare the whole content, not only times and sizes")
	cmd.Flags().StringVar(&o.DockerHost, "docker-host", "", "address of the Docker Engine; DOCKER_HOST, or its usual socket")
	return cmd
}

func verifyImages(ctx context.Context, o *imagesVerifyOptions) (err error) {
	s, err := openImages()
	if err != nil {
		return err
	}
	l, err := o.require(s)
	if err != nil {
		return err
	}
	v := &imagebuild.Verifier{
		Store: s, Dir: filepath.Dir(o.lockFile()),
		Connect: func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, o.DockerHost) },
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	bad, seen := o.verifyLock(ctx, s, l, v)
	more, err := o.verifyStore(ctx, s, seen)
	if err != nil {
		return err
	}
	if bad+more > 0 {
		return &exitError{Code: exitFail}
	}
	return nil
}

// verifyLock checks this platform's images of the lock; seen are their configs.
func (o *imagesVerifyOptions) verifyLock(
	ctx context.Context, s *image.Store, l *lock.File, v *imagebuild.Verifier,
) (bad int, seen map[string]bool) {
	seen = map[string]bool{}
	if l == nil {
		return 0, seen
	}
	for img, p := range l.On(source.Host()) {
		if len(o.Names) > 0 && !contains(o.Names, img.Name) {
			continue
		}
		seen[p.Config] = true
		errs := v.Image(ctx, img, p)
		if r, err := s.Find(p.Config); err == nil {
			if err := s.Verify(ctx, r, o.Deep); err != nil {
				errs = append(errs, err)
			}
		}
		if o.tell(img, p, errs) {
			bad++
		}
	}
	return bad, seen
}

// tell reports on one image of the lock, and says whether anything is wrong.
func (o *imagesVerifyOptions) tell(img *lock.Image, p *lock.Platform, errs []error) (bad bool) {
	var unsure []string
	for _, err := range errs {
		if errors.Is(err, imagebuild.ErrNotChecked) {
			unsure = append(unsure, err.Error())
			continue
		}
		bad = true
		hint := fault.Hint(err)
		if hint == "" {
			hint = "run `quavon build images " + img.Name + "` to make it again, and find out who changed it"
		}
		o.report(fault.Wrap(err, "the image "+img.Name+" of the lock", hint))
	}
	if bad {
		return true
	}
	by := ""
	if p.Signature != nil {
		by = signers([]*lock.Signature{p.Signature})
	}
	o.note("ok: %s%s", img.Name, by)
	if len(unsure) > 0 {
		o.note("note: %s: the Docker Engine's copy was %s", img.Name, printable(strings.Join(unsure, "; ")))
	}
	return false
}

// verifyStore checks the store's other images.
func (o *imagesVerifyOptions) verifyStore(ctx context.Context, s *image.Store, seen map[string]bool) (bad int, err error) {
	records, err := o.notLocked(s, seen)
	if err != nil {
		return 0, err
	}
	for _, r := range records {
		if err := s.Verify(ctx, r, o.Deep); err != nil {
			o.report(err)
			bad++
			continue
		}
		o.note("ok: %s%s", called(r), signers(s.Signatures(r)))
	}
	return bad, nil
}

// notLocked finds the images that are asked for, without those of the lock.
func (o *imagesVerifyOptions) notLocked(s *image.Store, seen map[string]bool) ([]*image.Record, error) {
	names := o.Names
	if len(names) > 0 {
		names = nil
		for _, name := range o.Names {
			if r, err := o.imageNamed(s, name); err != nil || !seen[r.Config.String()] {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return nil, nil
		}
	}
	all, err := o.named(s, names)
	if err != nil {
		return nil, err
	}
	var out []*image.Record
	for _, r := range all {
		if !seen[r.Config.String()] {
			out = append(out, r)
		}
	}
	return out, nil
}

// signers says who signed an image, as the lock wants it.
func signers(all []*lock.Signature) string {
	text := ""
	for _, s := range all {
		text += ", signed by " + signature.Met{Key: s.Key, Issuer: s.Issuer, Identity: s.Identity}.String()
	}
	return text
}
