package commands

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/source"
)

const imagesLong = `Images that jobs can run in: quavon run --image NAME.

Images come from a registry (pull), or from an OCI layout, a docker-archive or the
Docker daemon (import). They are pinned by digest; everything on the way from the
digest to the last byte of the last layer is checked. Each image is flattened once
into one read-only file that all sandboxes share.`

func newImages(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Manage the images that jobs run in",
		Long:  imagesLong,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImagesPull(p), newImagesImport(p), newImagesLs(p), newImagesInspect(p))
	cmd.AddCommand(newImagesVerify(p), newImagesRm(p), newImagesGC(p))
	return cmd
}

// checkImageName refuses a --name that nobody could tell from what stands around it.
func checkImageName(name string) error {
	if len(name) <= 200 && !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return nil
	}
	return fault.New(fmt.Sprintf("--name %.80q can't be used", name), "use letters and digits, at most 200")
}

// add imports an image, shows how far it is, and says what became of it.
func (p *program) add(ctx context.Context, s *image.Store, img *source.Image, name string) (*image.Record, error) {
	bar := p.newBar(img.Origin)
	r, had, err := s.Import(ctx, img, image.ImportOptions{Name: name, Progress: bar.update})
	bar.clear()
	if err != nil {
		return nil, err
	}
	verb := "imported"
	if had {
		verb = "already there:"
	}
	p.note("%s %s: %d files and directories, %s on disk", verb, img.Origin, r.Root.Entries, approx(r.Root.Allocated))
	if !had {
		p.noteReport(r)
	}
	_, err = fmt.Fprintln(p.IO.Out, r.Config)
	return r, err
}

// noteReport tells what of the image is not in its root.
func (p *program) noteReport(r *image.Record) {
	if n := r.Report.OtherNodes; n > 0 {
		p.note("note: %d device nodes outside of /dev were left out", n)
	}
	if n := r.Report.Capabilities; n > 0 {
		p.note("note: %d files have capabilities, which jobs can't use: they were left out", n)
	}
	if len(r.Report.Names) > 0 {
		p.note("      quavon images inspect %s names them", r.Config.Hex[:12])
	}
}

// note says something on stderr that is no error.
func (p *program) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.IO.ErrOut, format+"\n", args...) // nobody can be told
}

// bar shows progress on one line of a terminal, and nothing elsewhere.
type bar struct {
	w     io.Writer
	what  string
	mu    sync.Mutex
	next  time.Time
	shown bool
}

func (p *program) newBar(what string) *bar {
	b := &bar{what: what}
	if p.IO.ErrIsTerminal() {
		b.w = p.IO.ErrOut
	}
	return b
}

func (b *bar) update(done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.w == nil || now.Before(b.next) {
		return
	}
	b.next, b.shown = now.Add(100*time.Millisecond), true
	size := approx(done)
	if total > 0 {
		size = fmt.Sprintf("%3d%% of %s", min(100, 100*done/total), approx(total))
	}
	_, _ = fmt.Fprintf(b.w, "\r%s: %s\x1b[K", shorten(b.what), size)
}

// clear takes the line back.
func (b *bar) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown {
		_, _ = fmt.Fprint(b.w, "\r\x1b[K")
	}
	b.w = nil
}

// shorten makes a reference fit on a line, keeping its two ends.
func shorten(s string) string {
	const most = 50
	if len(s) <= most {
		return s
	}
	return s[:most/2-1] + "…" + s[len(s)-most/2:]
}

// approx writes a size for people.
func approx(n int64) string {
	unit, f := 0, float64(n)
	for f >= 1000 && unit < len(sizeUnits)-1 {
		f /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %siB", f, strings.ToUpper(sizeUnits[unit:unit+1]))
}
