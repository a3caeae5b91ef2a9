package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/source"
)

func newImagesRm(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "rm IMAGE...",
		Short: "Remove images that no sandbox uses",
		Args:  usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openImages()
			if err != nil {
				return err
			}
			records, err := p.named(s, args)
			if err != nil {
				return err
			}
			for _, r := range records {
				if err := s.Remove(cmd.Context(), r); err != nil {
					return err
				}
				p.note("removed %s", called(r))
			}
			return nil
		},
	}
}

type imagesGCOptions struct {
	*program
	All bool
}

func newImagesGC(p *program) *cobra.Command {
	o := &imagesGCOptions{program: p}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove images without a name, and what broken imports left",
		Long: `Remove what imports that were killed have left behind, and images that have neither a
name nor a place in the lock; with --all those that have a name too. An image that a
sandbox uses stays.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return collectImages(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "also images that have a name, but not those in the lock")
	return cmd
}

func collectImages(ctx context.Context, o *imagesGCOptions) error {
	s, err := openImages()
	if err != nil {
		return err
	}
	l, err := o.require(s)
	if err != nil {
		return err
	}
	locked := map[string]bool{}
	if l != nil {
		for _, p := range l.On(source.Host()) {
			locked[p.Config] = true
		}
	}
	c, err := s.Collect(ctx, func(r *image.Record) bool {
		return locked[r.Config.String()] || len(r.Names) > 0 && !o.All
	})
	for _, r := range c.Images {
		o.note("removed %s", called(r))
	}
	for _, path := range c.Leftovers {
		o.note("removed %s, left by an import that was killed", path)
	}
	o.note("%d images removed, %s freed", len(c.Images), approx(c.Bytes))
	return err
}
