package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/imagebuild/rootfs"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
)

const buildRootfsLong = `Make a file system of an image, without root and without mounting anything: ext4,
which can be written to, or EROFS, which can't. IMAGE is one of

  NAME or DIGEST              an image of the store or the lock, read from where it came from
  REPOSITORY@sha256:DIGEST    an image of a registry
  PATH                        an OCI layout, or what "docker save" wrote; a name with a slash
  docker-daemon:IMAGE         an image of the Docker daemon

The same image and options give the same bytes everywhere. A file that was made before
and hasn't changed is left alone. stdout has its sha256 and its name, as sha256sum does.`

type buildRootfsOptions struct {
	*program
	From       rootfsSource
	Output     string
	Format     string
	Free, Size byteSize
	Journal    byteSize
	Resize     bool
	JSON       bool
}

func newBuildRootfs(p *program) *cobra.Command {
	o := &buildRootfsOptions{program: p}
	cmd := &cobra.Command{
		Use:   "rootfs IMAGE -o FILE",
		Short: "Make an ext4 or EROFS file system of an image",
		Long:  buildRootfsLong,
		Example: `  quavon build rootfs node -o node.ext4 --free 2G --journal
  quavon build rootfs ./layout -o base.erofs --format erofs`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.From.Image = args[0]
			return buildRootfs(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Output, "output", "o", "", "file to write; one that is there is replaced")
	f.StringVar(&o.Format, "format", string(lock.KindExt4), "ext4 or erofs")
	f.Var(&o.Free, "free", "space for whoever mounts it")
	f.Var(&o.Size, "size", "size of the whole file system, instead of what content and --free need")
	f.Var(&o.Journal, "journal", "have a journal, of this size")
	f.Lookup("journal").NoOptDefVal = "16MiB"
	f.BoolVar(&o.Resize, "resize", false, "prepare for growing it with resize2fs")
	o.From.flags(f)
	f.BoolVar(&o.JSON, "json", false, "say all that is known of the result, as JSON")
	return cmd
}

func buildRootfs(cmd *cobra.Command, o *buildRootfsOptions) error {
	if o.Output == "" {
		return &usageError{cmd, fault.New("no file to write to", "name one with -o FILE")}
	}
	options := rootfs.Options{
		Kind: lock.Kind(o.Format), Free: int64(o.Free), Size: int64(o.Size), Journal: int64(o.Journal), Resize: o.Resize,
	}
	if err := options.Check(); err != nil {
		return &usageError{cmd, err}
	}
	if err := fileFlag("-o", o.Output); err != nil {
		return err
	}
	store, err := openImages()
	if err != nil {
		return err
	}
	made, had, err := o.make(cmd.Context(), store, options)
	if err != nil {
		return err
	}
	o.noteMade(made, had)
	if o.JSON {
		return o.writeJSON(made)
	}
	_, err = fmt.Fprintf(o.IO.Out, "%s  %s\n", made.SHA256, made.Path)
	return err
}

// make opens the image, unless what it would become is there already.
func (o *buildRootfsOptions) make(ctx context.Context, s *image.Store, options rootfs.Options) (*rootfs.Made, bool, error) {
	maker := &rootfs.Maker{Records: s.Path("artefacts")}
	r, err := o.From.find(o.program, s)
	if err != nil {
		return nil, false, err
	}
	if r != nil {
		if made, ok := maker.Current(ctx, r.Config, o.Output, options); ok {
			return made, true, nil
		}
	}
	img, err := o.From.open(ctx, s, r)
	if err != nil {
		return nil, false, err
	}
	bar := o.newBar(img.Origin)
	maker.Progress = bar.update
	made, had, err := maker.Make(ctx, img, o.Output, options)
	bar.clear()
	return made, had, errors.Join(err, img.Close())
}

// noteMade says what became of the image, and what is not in the file.
func (o *buildRootfsOptions) noteMade(made *rootfs.Made, had bool) {
	verb := "made"
	if had {
		verb = "already there:"
	}
	o.note("%s %s: %d files and directories, %s, %s on disk", verb, made.Path, made.Entries, approx(made.Size), approx(made.Allocated))
	if had {
		return
	}
	if n := made.Report.DevNodes + made.Report.OtherNodes; n > 0 {
		o.note("note: %d device nodes were left out, %d of them below /dev", n, made.Report.DevNodes)
	}
	for _, name := range slices.Sorted(maps.Keys(made.Report.Xattrs)) {
		o.note("note: the extended attribute %s of %d files was left out: it belongs to another host",
			printable(name), made.Report.Xattrs[name])
	}
}
