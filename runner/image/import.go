package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/layer"
	"github.com/quavon/quavon/runner/image/source"
)

// ImportOptions of Store.Import.
type ImportOptions struct {
	// Name is the operator's name for the image; another image loses it.
	Name   string
	Limits flatten.Limits
	// Progress is told how many bytes of the layers were read, of how many in
	// all; 0 when that isn't known. It is called from several goroutines.
	Progress func(done, total int64)
}

// Import puts an image into the store and says whether it was there before. The
// image is complete when Import returns without an error, whatever happens next.
func (s *Store) Import(ctx context.Context, img *source.Image, o ImportOptions) (r *Record, had bool, err error) {
	run, err := runOf(img.ConfigFile)
	if err != nil {
		return nil, false, fault.Wrap(err, "can't use the image "+img.Origin, "")
	}
	l, err := s.lock(ctx, img.Config)
	if err != nil {
		return nil, false, fault.Wrap(err, "can't import "+img.Origin, "another import of the same image still runs; wait for it")
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r, had = s.present(img)
	if !had {
		if r, err = s.make(ctx, img, run, o); err != nil {
			return nil, false, importFault(err, img)
		}
	}
	r.addOrigin(origin(img))
	err = r.write(s.record(r.Config))
	if err == nil {
		err = s.name(ctx, r, o.Name)
	}
	if err != nil {
		return nil, false, fault.Wrap(err, "can't write the image's record", "check that "+s.dir+" is writable and not full")
	}
	return r, had, nil
}

// name gives the image a name, which another image loses.
func (s *Store) name(ctx context.Context, r *Record, name string) error {
	return s.changeNames(ctx, func(n names) {
		if name != "" {
			n[name] = r.Config
		}
		r.Names = n.of(r.Config)
	})
}

func importFault(err error, img *source.Image) error {
	hint := fault.Hint(err)
	var bad *layer.DigestError
	var big *flatten.TooBigError
	switch {
	case hint != "":
	case errors.As(err, &bad):
		hint = "the content was damaged or changed on the way: fetch or save it again"
	case errors.As(err, &big):
		hint = "use a smaller image, or raise the limit"
	case errors.Is(err, unix.ENOSPC):
		hint = "free space in the state directory; `quavon images gc` helps"
	case errors.Is(err, context.Canceled):
	default:
		hint = "build the image again with a current tool"
	}
	return fault.Wrap(err, "can't import "+img.Origin, hint)
}

func origin(img *source.Image) Origin {
	o := Origin{From: img.Origin}
	if img.Index.Hex != "" {
		o.Index = img.Index.String()
	}
	if img.Manifest.Hex != "" {
		o.Manifest = img.Manifest.String()
	}
	return o
}

// present returns the image's record when its root is as it was made.
func (s *Store) present(img *source.Image) (*Record, bool) {
	r, err := readRecord(s.record(img.Config))
	if err != nil || r.Root.Format != rootFormat {
		return nil, false
	}
	f, err := os.Open(s.root(img.Config))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	return r, check(r, f) == nil
}

// make builds the root and puts it in its place.
func (s *Store) make(ctx context.Context, img *source.Image, run Run, o ImportOptions) (r *Record, err error) {
	work := s.work(img.Config)
	if err := os.RemoveAll(work); err != nil { // of an import that crashed
		return nil, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	f, err := os.OpenFile(filepath.Join(work, "root"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if o.Limits == (flatten.Limits{}) {
		o.Limits = flatten.DefaultLimits
	}
	b := &builder{dir: work, img: img, run: &run, budget: flatten.NewBudget(o.Limits), root: f, read: progress(img, o.Progress)}
	done, err := b.build(ctx)
	if err != nil {
		return nil, err
	}
	r = &Record{
		Version: recordVersion, Config: img.Config, Platform: *img.ConfigFile.Platform(),
		DiffIDs: img.ConfigFile.RootFS.DiffIDs, Run: run, Report: done.tree.Report,
		Root: RootFile{Format: rootFormat, Size: done.size, Entries: done.entries},
	}
	r.Root.Passwd, r.Root.Group = extent(done.tree, "/etc/passwd"), extent(done.tree, "/etc/group")
	return r, s.publish(ctx, r, f, &b.hash)
}

// publish makes the root durable and gives it its name.
func (s *Store) publish(ctx context.Context, r *Record, f *os.File, h *treeHash) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(f.Sync)
	group.Go(func() (err error) {
		r.Root.Hash, err = h.finish(ctx, f)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.Chmod(0o400); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), s.root(r.Config)); err != nil {
		return err
	}
	if err := disk.SyncDir(filepath.Join(s.dir, rootsDir)); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	r.Root.Allocated = st.Blocks * 512
	var err error
	r.Root.Seen, err = Identify(f)
	return err
}

// progress adds up what all layers read.
func progress(img *source.Image, f func(done, total int64)) func(int) {
	if f == nil {
		return func(int) {}
	}
	var total int64
	for _, l := range img.Layers {
		total += max(0, l.Size)
	}
	done := new(atomic.Int64)
	return func(n int) { f(done.Add(int64(n)), total) }
}
