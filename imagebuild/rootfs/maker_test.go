package rootfs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/imagebuild/rootfs"
	"github.com/quavon/quavon/runner/fault"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
)

// TestUnchangedIsKept makes a file again only when it has to.
func TestUnchangedIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "image")
	m := rootfs.Maker{Records: filepath.Join(dir, "records")}
	img := open(t, layout(t, it.Tar(t, it.File("f", strings.Repeat("x", 100_000)))))
	other := open(t, layout(t, it.Tar(t, it.File("g", "y"))))
	o := rootfs.Options{Kind: lock.KindExt4}
	first, _, err := m.Make(t.Context(), img, path, o)
	must(t, err)
	write := func(at int64) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("changed"), at)
		must(t, err)
		must(t, f.Close())
	}
	for _, step := range []struct {
		name   string
		before func()
		from   string
		o      rootfs.Options
		had    bool
	}{
		{"again", func() {}, "img", o, true},
		{"touched", func() { must(t, os.Chtimes(path, time.Now(), time.Now())) }, "img", o, true},
		{"touched, again", func() {}, "img", o, true},
		{"changed", func() { write(1 << 20) }, "img", o, false},
		{"longer", func() { must(t, os.Truncate(path, 1<<30)) }, "img", o, false},
		{"other options", func() {}, "img", rootfs.Options{Kind: lock.KindExt4, Free: 1 << 20}, false},
		{"other kind", func() {}, "img", rootfs.Options{Kind: lock.KindEROFS}, false},
		{"other image", func() {}, "other", rootfs.Options{Kind: lock.KindEROFS}, false},
		{"first image", func() {}, "img", o, false},
		{"removed", func() { must(t, os.Remove(path)) }, "img", o, false},
		{"no record", func() { must(t, os.RemoveAll(m.Records)) }, "img", o, false},
		{"broken record", func() { breakRecords(t, m.Records) }, "img", o, false},
		{"at the end", func() {}, "img", o, true},
	} {
		step.before()
		from := img
		if step.from == "other" {
			from = other
		}
		made, had, err := m.Make(t.Context(), from, path, step.o)
		must(t, err)
		if had != step.had {
			t.Errorf("%s: was there: %v", step.name, had)
		}
		if step.from == "img" && step.o == o && made.SHA256 != first.SHA256 {
			t.Errorf("%s: %s, want %s", step.name, made.SHA256, first.SHA256)
		}
	}
}

func breakRecords(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, f := range files {
		must(t, os.WriteFile(f, []byte("{"), 0o600))
	}
}

// TestRecordsGoWithTheirFiles: what is no longer there isn't remembered for ever.
func TestRecordsGoWithTheirFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := rootfs.Maker{Records: filepath.Join(dir, "records")}
	img := open(t, layout(t, it.Tar(t, it.File("f", "x"))))
	for _, name := range []string{"a", "b", "c"} {
		path := filepath.Join(dir, name)
		_, _, err := m.Make(t.Context(), img, path, rootfs.Options{Kind: lock.KindExt4})
		must(t, err)
		must(t, os.Remove(path))
	}
	if files, err := os.ReadDir(m.Records); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
}

// TestCancel ends a build at every stage it can be in; the old file stays.
func TestCancel(t *testing.T) {
	t.Parallel()
	from := bigLayout(t)
	for _, kind := range kinds {
		dir := t.TempDir()
		path := filepath.Join(dir, "image")
		must(t, os.WriteFile(path, []byte("old"), 0o600))
		for at := int64(0); at < 12<<20; at += 3 << 20 {
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("stop")
			m := rootfs.Maker{Progress: func(done, _ int64) {
				if done > at {
					cancel(stop)
				}
			}}
			if _, _, err := m.Make(ctx, open(t, from), path, rootfs.Options{Kind: kind}); !errors.Is(err, stop) {
				t.Errorf("%s at %d: %v", kind, at, err)
			}
			cancel(nil)
		}
		got, err := os.ReadFile(path)
		must(t, err)
		files, err := os.ReadDir(dir)
		must(t, err)
		if !bytes.Equal(got, []byte("old")) || len(files) != 1 {
			t.Errorf("%s: %q, %v", kind, got, files)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	big := it.Tar(t, it.File("f", strings.Repeat("x", 3<<20)))
	late := it.File("f", "x")
	late.Mtime = time.Unix(1<<34, 0)
	for name, c := range map[string]struct {
		layer []byte
		path  string
		o     rootfs.Options
		want  string
		hint  string
	}{
		"format":        {big, "x", rootfs.Options{Kind: "xfs"}, "unknown", "ext4 or erofs"},
		"erofs free":    {big, "x", rootfs.Options{Kind: lock.KindEROFS, Free: 1}, "read-only", "ext4"},
		"size and free": {big, "x", rootfs.Options{Kind: lock.KindExt4, Free: 4096, Size: 4096}, "a size and free", "one of them"},
		"odd size":      {big, "x", rootfs.Options{Kind: lock.KindExt4, Size: 4097}, "whole blocks", "4096"},
		"short journal": {big, "x", rootfs.Options{Kind: lock.KindExt4, Journal: 4096}, "too short", "4194304"},
		"too small":     {big, filepath.Join(dir, "x"), rootfs.Options{Kind: lock.KindExt4, Size: 1 << 20}, "needs", "--size"},
		"late":          {it.Tar(t, late), filepath.Join(dir, "x"), rootfs.Options{Kind: lock.KindExt4}, `"/f": its time`, "erofs"},
		"no file":       {big, fifo, rootfs.Options{Kind: lock.KindExt4}, "no regular file", "name a file"},
		"directory":     {big, dir, rootfs.Options{Kind: lock.KindExt4}, "no regular file", "name a file"},
		"nowhere":       {big, filepath.Join(dir, "a", "b"), rootfs.Options{Kind: lock.KindExt4}, "no such file", "directory"},
	} {
		_, _, err := new(rootfs.Maker).Make(t.Context(), open(t, layout(t, c.layer)), c.path, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%s: %v; hint: %s", name, err, fault.Hint(err))
		}
	}
	must(t, os.Remove(fifo))
	empty(t, dir)
}

// TestDamagedLayer leaves nothing behind either.
func TestDamagedLayer(t *testing.T) {
	t.Parallel()
	from := bigLayout(t)
	blobs, err := filepath.Glob(filepath.Join(from, "blobs", "sha256", "*"))
	must(t, err)
	for _, b := range blobs {
		if st, err := os.Stat(b); err != nil || st.Size() < 3<<20 {
			continue
		}
		f, err := os.OpenFile(b, os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("damage"), 2<<20)
		must(t, err)
		must(t, f.Close())
	}
	dir := t.TempDir()
	if _, _, err = new(rootfs.Maker).Make(t.Context(), open(t, from), filepath.Join(dir, "x"), rootfs.Options{Kind: lock.KindExt4}); err == nil {
		t.Error("no error")
	}
	empty(t, dir)
}

// TestUpperContentIsNotInTheFile: what an upper layer deletes is gone.
func TestUpperContentIsNotInTheFile(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("deleted content ", 20_000)
	from := layout(t, it.Tar(t, it.File("f", secret), it.File("g", "g")), it.Tar(t, it.File("h", secret)),
		it.Tar(t, it.File(".wh.f", ""), it.File("h", "new")))
	for _, kind := range kinds {
		path, made := build(t, from, rootfs.Options{Kind: kind})
		raw, err := os.ReadFile(path)
		must(t, err)
		if bytes.Contains(raw, []byte("deleted content")) {
			t.Errorf("%s has content of a file that was deleted", kind)
		}
		if kind == lock.KindExt4 && made.FreeBytes < int64(len(secret)) || made.Size%ext4.BlockSize != 0 {
			t.Errorf("%+v", made)
		}
	}
}
