package commands

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/quavon/quavon/imagebuild"
)

// showDiff prints what the lock would become.
func (o *buildImagesOptions) showDiff(b *imagebuild.Builder, r *imagebuild.Result) error {
	changes, err := b.Diff(r.Before, r.After)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		o.note("nothing would change in %s", b.Lock)
		return nil
	}
	w := tabwriter.NewWriter(o.IO.Out, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		writeChange(w, c)
	}
	o.note("%s is as it was; `quavon build images` writes it", b.Lock)
	return w.Flush()
}

func writeChange(w *tabwriter.Writer, c imagebuild.Change) {
	what := "changed"
	switch {
	case c.Old == nil:
		what = "new"
	case c.New == nil:
		what = "dropped"
	}
	_, _ = fmt.Fprintf(w, "%s %s: %s\n", c.Image, c.Platform, what) // Flush tells
	for _, f := range c.Fields {
		from, to := field(f.Name, f.Old), field(f.Name, f.New)
		_, _ = fmt.Fprintf(w, "  %s\t%s\t→\t%s\n", f.Name, from, to)
	}
	for _, p := range c.Packages {
		_, _ = fmt.Fprintf(w, "  %s %s\t%s\t→\t%s\n", printable(p.Type), printable(p.Name), dash(p.Old), dash(p.New))
	}
}

// field shows a digest in full: it is what people compare.
func field(_ string, v string) string { return dash(v) }

func dash(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return "-"
	}
	return printable(s)
}
