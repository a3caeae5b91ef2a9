package commands

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
)

type imagesLsOptions struct {
	*program
	Output string
	Quiet  bool
}

func newImagesLs(p *program) *cobra.Command {
	o := &imagesLsOptions{program: p}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the images that are here",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(*cobra.Command, []string) error { return listImages(o) },
	}
	cmd.Flags().StringVarP(&o.Output, "output", "o", "text", "text or json")
	cmd.Flags().BoolVarP(&o.Quiet, "quiet", "q", false, "only digests")
	return cmd
}

func listImages(o *imagesLsOptions) error {
	s, err := openImages()
	if err != nil {
		return err
	}
	all, err := s.List()
	if err != nil {
		err = fault.Wrap(err, "some images can't be read", "remove the file that is named")
	}
	switch {
	case o.Quiet:
		for _, r := range all {
			_, _ = fmt.Fprintln(o.IO.Out, r.Config) // the last write tells
		}
	case o.Output == "json":
		if all == nil {
			all = []*image.Record{}
		}
		if err := o.writeJSON(all); err != nil {
			return err
		}
	case o.Output == "text":
		if err := o.table(all); err != nil {
			return err
		}
	default:
		return &exitError{exitUsage, fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use text or json")}
	}
	return err
}

func (o *imagesLsOptions) table(all []*image.Record) error {
	w := tabwriter.NewWriter(o.IO.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tDIGEST\tPLATFORM\tFILES\tON DISK\tFROM") // Flush tells
	for _, r := range all {
		name, from := "-", "-"
		if len(r.Names) > 0 {
			name = strings.Join(r.Names, ",")
		}
		if len(r.Origins) > 0 {
			from = r.Origins[0].From
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n",
			name, r.Config.Hex[:12], r.Platform, r.Root.Entries, approx(r.Root.Allocated), shorten(from))
	}
	return w.Flush()
}

func newImagesInspect(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect IMAGE",
		Short: "Show all that is known of an image, as JSON",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := openImages()
			if err != nil {
				return err
			}
			r, err := p.imageNamed(s, args[0])
			if err != nil {
				return err
			}
			return p.writeJSON(r)
		},
	}
}

// called is what people call an image.
func called(r *image.Record) string {
	if len(r.Names) > 0 {
		return r.Names[0]
	}
	return r.Config.String()
}

// named finds images, or all without a name.
func (p *program) named(s *image.Store, names []string) ([]*image.Record, error) {
	if len(names) == 0 {
		all, err := s.List()
		if err != nil {
			return nil, fault.Wrap(err, "some images can't be read", "remove the file that is named")
		}
		return all, nil
	}
	var found []*image.Record
	for _, name := range names {
		r, err := p.imageNamed(s, name)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}
