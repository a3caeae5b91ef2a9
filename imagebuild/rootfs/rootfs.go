// Package rootfs makes a file system image, ext4 or EROFS, of a container image:
// one pass over its layers, without root, mounts or a staging directory. The result
// is a sparse file that appears complete or not at all, and the same image gives the
// same bytes everywhere.
package rootfs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/layer"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// Maker makes file systems and remembers what it made.
type Maker struct {
	// Records is a directory of the maker's own; empty remembers nothing.
	Records string
	// Limits of an image; zero are flatten.DefaultLimits.
	Limits flatten.Limits
	// Progress is told how many bytes of the layers were read, of how many in all; 0
	// when that isn't known. It is called from several goroutines.
	Progress func(done, total int64)
}

// Options of a file system.
type Options struct {
	// Kind is lock.KindExt4 or lock.KindEROFS; the others are of ext4 alone.
	Kind lock.Kind
	// Free is the space in bytes that a user finds at least, Size that of the whole
	// image; 0 is what the content needs. One of them is 0.
	Free, Size int64
	// Journal in bytes; 0 is none.
	Journal int64
	// Resize prepares for growing; see ext4.Options.ResizeInode.
	Resize bool
}

// Made is a file system that was made.
type Made struct {
	// Image is the digest of the config it was made from.
	Image    v1.Hash `json:"image"`
	Platform string  `json:"platform"`
	// Artefact has the path as it was given to Make.
	lock.Artefact
	// Entries counts names. FreeBytes and FreeInodes are those of ext4.
	Entries    int64 `json:"entries"`
	FreeBytes  int64 `json:"free_bytes,omitempty"`
	FreeInodes int64 `json:"free_inodes,omitempty"`
	// Report is what is not in the file system.
	Report flatten.Report `json:"report"`
}

// Check says whether the options make sense together.
func (o *Options) Check() error {
	ext4Only := o.Free != 0 || o.Size != 0 || o.Journal != 0 || o.Resize
	switch {
	case o.Kind != lock.KindExt4 && o.Kind != lock.KindEROFS:
		return fault.New(fmt.Sprintf("the format %q is unknown", o.Kind), "use ext4 or erofs")
	case o.Kind == lock.KindEROFS && ext4Only:
		return fault.New("an EROFS image is read-only: it has no free space, journal or room to grow",
			"leave these options out, or use ext4")
	case o.Free != 0 && o.Size != 0:
		return fault.New("a size and free space", "give one of them: the other follows")
	case o.Size%ext4.BlockSize != 0 || o.Journal%ext4.BlockSize != 0:
		return fault.New("a size that isn't in whole blocks", fmt.Sprintf("use multiples of %d bytes", ext4.BlockSize))
	case o.Journal != 0 && o.Journal < ext4.MinJournal:
		return fault.New("the journal is too short", fmt.Sprintf("give it %d bytes or more", ext4.MinJournal))
	}
	return nil
}

// Fields is what the lock says of the options: those that were given.
func (o *Options) Fields() map[string]string {
	m := map[string]string{}
	for name, n := range map[string]int64{"free": o.Free, "size": o.Size, "journal": o.Journal} {
		if n != 0 {
			m[name] = fmt.Sprint(n)
		}
	}
	if o.Resize {
		m["resize"] = "true"
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// Make writes the file system of an image to path and replaces what was there, and
// says whether it was there before: the same image, made with the same options, and
// not changed since.
func (m *Maker) Make(ctx context.Context, img *source.Image, path string, o Options) (made *Made, had bool, err error) {
	if err := o.Check(); err != nil {
		return nil, false, err
	}
	if made, ok := m.Current(ctx, img.Config, path, o); ok {
		return made, true, nil
	}
	made, err = m.make(ctx, img, path, o)
	if err != nil {
		return nil, false, makeFault(err, img, path)
	}
	return made, false, nil
}

func (m *Maker) make(ctx context.Context, img *source.Image, path string, o Options) (made *Made, err error) {
	out, err := newOutput(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	limits := m.Limits
	if limits == (flatten.Limits{}) {
		limits = flatten.DefaultLimits
	}
	b := &builder{img: img, opts: o, out: out, budget: flatten.NewBudget(limits), read: m.progress(img)}
	made, err = b.build(ctx)
	if err != nil {
		return nil, err
	}
	made.Path = path
	if err := out.publish(ctx, &made.Artefact); err != nil {
		return nil, err
	}
	return made, m.remember(made, out.File)
}

// progress adds up what all layers read.
func (m *Maker) progress(img *source.Image) func(int) {
	if m.Progress == nil {
		return func(int) {}
	}
	var total int64
	for _, l := range img.Layers {
		total += max(0, l.Size)
	}
	done := new(atomic.Int64)
	return func(n int) { m.Progress(done.Add(int64(n)), total) }
}

func makeFault(err error, img *source.Image, path string) error {
	hint := fault.Hint(err)
	var (
		bad   *layer.DigestError
		big   *flatten.TooBigError
		small *ext4.TooSmallError
		entry *ext4.EntryError
	)
	switch {
	case hint != "":
	case errors.As(err, &bad):
		hint = "the content was damaged or changed on the way: fetch or save it again"
	case errors.As(err, &big):
		hint = "use a smaller image"
	case errors.As(err, &small):
		hint = fmt.Sprintf("use --size %d or more, or leave it out", small.Need)
	case errors.As(err, &entry):
		hint = "change the file in the image, or use --format erofs"
	case errors.Is(err, unix.ENOSPC):
		hint = "free space in " + filepath.Dir(path)
	case errors.Is(err, unix.ENOENT):
		hint = "make the directory first: mkdir -p " + filepath.Dir(path)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = "make " + filepath.Dir(path) + " writable for you, or name another file"
	case errors.Is(err, context.Canceled):
	default:
		hint = "build the image again with a current tool"
	}
	return fault.Wrap(err, "can't make a file system of "+img.Origin, hint)
}
