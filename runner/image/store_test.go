package image_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/flatten"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/race"
)

const passwd = "root:x:0:0:root:/root:/bin/sh\nodd\napp:x:1000:1001:App:/app:/bin/sh\nbad:x:y:z::/:\n"

const group = "root:x:0:\ndocker:x:50:other,app\napp:x:1001:\nwheel:x:10:app,root\n"

// open makes an image available as a source.
func openLayout(t testing.TB, img v1.Image) *source.Image {
	t.Helper()
	s, err := source.File(context.Background(), it.Layout(t, img), source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func app(t testing.TB, c v1.Config, body string) v1.Image {
	return it.Image(t, c,
		it.Gzip(t, it.Tar(t, it.Dir("etc"), it.File("etc/passwd", passwd), it.File("etc/group", group), it.File("gone", strings.Repeat("x", 100_000)))),
		it.Gzip(t, it.Tar(t, it.File("body", body), it.File(".wh.gone", ""))))
}

func mustOpen(t testing.TB, s *image.Store, ref string) *image.Root {
	t.Helper()
	r, err := s.Open(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOpen(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t)
	img := app(t, v1.Config{User: "app", Env: []string{"A=b"}, WorkingDir: "/srv", Cmd: []string{"sh"}}, "1")
	src := openLayout(t, img)
	r, had, err := s.Import(ctx, src, image.ImportOptions{Name: "one"})
	if err != nil || had {
		t.Fatal(had, err)
	}
	if _, had, err := s.Import(ctx, openLayout(t, img), image.ImportOptions{Name: "uno"}); err != nil || !had {
		t.Fatalf("the second import: had it %v, %v", had, err)
	}
	for _, ref := range []string{"one", "uno", r.Config.String(), src.Manifest.String(), "registry.example/x@" + src.Manifest.String(), r.Config.Hex[:8]} {
		root := mustOpen(t, s, ref)
		if d := cmp.Diff(image.Run{User: "app", Env: []string{"A=b"}, WorkDir: "/srv", Cmd: []string{"sh"}}, root.Run); d != "" {
			t.Errorf("%s: %s", ref, d)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, ref := range []string{"three", "one:latest", "sha256:" + strings.Repeat("0", 64), "x@" + strings.Repeat("0", 64), r.Config.Hex[:7], ""} {
		_, err := s.Open(ctx, ref)
		if fault.Code(err) != string(job.ReasonImageUnknown) || fault.Hint(err) == "" {
			t.Errorf("%q: got %v", ref, err)
		}
	}
	if a := r.Root.Allocated; a >= r.Root.Size {
		t.Errorf("%d bytes are allocated of %d: what was deleted is still there", a, r.Root.Size)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	load(t, s, openLayout(t, app(t, v1.Config{User: "app"}, "1")), nil)
	all, err := s.List()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	root := mustOpen(t, s, all[0].Config.String())
	defer root.Close()
	appUser := image.User{UID: 1000, GID: 1001, Groups: []uint32{10, 50}, Name: "app", Home: "/app"}
	for spec, want := range map[string]image.User{
		"":            appUser,
		"app":         appUser,
		"1000":        appUser,
		"0":           {Groups: []uint32{10}, Name: "root", Home: "/root"},
		"root":        {Groups: []uint32{10}, Name: "root", Home: "/root"},
		"4000":        {UID: 4000, Home: "/"},
		"4000:70":     {UID: 4000, GID: 70, Home: "/"},
		"app:docker":  {UID: 1000, GID: 50, Name: "app", Home: "/app"},
		"root:nobody": {},
		"nobody":      {},
		"bad":         {},
		"4294967295":  {},
		"-1":          {},
	} {
		got, err := root.User(spec)
		if want.Home == "" {
			if fault.Hint(err) == "" {
				t.Errorf("%q: got %v, %v", spec, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", spec, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", spec, d)
		}
	}
}

// TestConfigs is IM-27: where a config may lead.
func TestConfigs(t *testing.T) {
	t.Parallel()
	layer := it.Gzip(t, it.Tar(t, it.Symlink("p", "/proc"), it.Dir("a"), it.Symlink("a/q", "../p/self"), it.Symlink("d", "/dev")))
	for name, c := range map[string]struct {
		config v1.Config
		want   string
	}{
		"the runtime's directory":    {v1.Config{WorkingDir: "/proc/self/fd/7"}, `WorkingDir "/proc/self/fd/7"`},
		"/proc itself":               {v1.Config{WorkingDir: "/proc"}, "WorkingDir"},
		"through dots":               {v1.Config{WorkingDir: "//a/.././proc/self"}, "WorkingDir"},
		"relative":                   {v1.Config{WorkingDir: "proc/self/fd/7"}, "WorkingDir"},
		"/dev/fd":                    {v1.Config{WorkingDir: "/dev/fd/7"}, "WorkingDir"},
		"through a link":             {v1.Config{WorkingDir: "/p/self/fd"}, "leads to /proc/self/fd"},
		"through two links":          {v1.Config{WorkingDir: "/a/q/fd"}, "leads to /proc/self/fd"},
		"/dev/fd through a link":     {v1.Config{WorkingDir: "/d/fd/7"}, "leads to /dev/fd/7"},
		"entrypoint":                 {v1.Config{Entrypoint: []string{"/proc/self/exe"}}, "Entrypoint"},
		"entrypoint through a link":  {v1.Config{Entrypoint: []string{"/p/self/fd/7"}}, "Entrypoint"},
		"command":                    {v1.Config{Cmd: []string{"/dev/fd/7"}}, "Cmd"},
		"a variable without a value": {v1.Config{Env: []string{"A"}}, `variable "A"`},
		"a NUL byte":                 {v1.Config{Env: []string{"A=\x00"}}, "NUL"},
		"fine":                       {v1.Config{WorkingDir: "/procedures", Entrypoint: []string{"proc"}, Cmd: []string{"/proc/x"}}, ""},
		"a link to a link":           {v1.Config{WorkingDir: "/d/fdx"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			_, _, err := s.Import(context.Background(), openLayout(t, it.Image(t, c.config, layer)), image.ImportOptions{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if all, err := s.List(); c.want != "" && (err != nil || len(all) > 0) {
				t.Errorf("the store has %v, %v", all, err)
			}
		})
	}
}

// files lists what a store holds, without its locks.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	for _, sub := range []string{"records", "roots", "tmp"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, sub+"/"+e.Name())
		}
	}
	return names
}

// TestRefusedLeavesNothing fails imports in different phases.
func TestRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	good := it.Gzip(t, it.Tar(t, it.File("a", strings.Repeat("x", 1<<20))))
	damaged := good
	damaged.Packed = append([]byte(nil), good.Packed...)
	damaged.Packed[len(damaged.Packed)-6] ^= 1
	for name, c := range map[string]struct {
		img    v1.Image
		limits flatten.Limits
		want   string
	}{
		"a damaged layer":       {it.Image(t, v1.Config{}, good, damaged), flatten.Limits{}, ""},
		"a hostile layer":       {it.Image(t, v1.Config{}, good, it.Gzip(t, it.Tar(t, it.File("../x", "")))), flatten.Limits{}, `layer 1: entry "../x"`},
		"a dangling hard link":  {it.Image(t, v1.Config{}, good, it.Gzip(t, it.Tar(t, it.Link("l", "none")))), flatten.Limits{}, "no file of the image"},
		"IM-15 too much zeros":  {it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("var/log/lastlog", strings.Repeat("\x00", 2<<20))))), flatten.Limits{Entries: 10, Stream: 1 << 30, Logical: 1 << 20, Written: 1 << 30}, `"var/log/lastlog"`},
		"IM-15 too much data":   {it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("big", strings.Repeat("x", 4<<20))))), flatten.Limits{Entries: 10, Stream: 1 << 30, Logical: 1 << 30, Written: 2 << 20}, `"big"`},
		"IM-15 zeros take none": {it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("zero", strings.Repeat("\x00", 4<<20))))), flatten.Limits{Entries: 20, Stream: 1 << 30, Logical: 1 << 30, Written: 1 << 20}, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "images")
			s, err := image.OpenStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Import(context.Background(), openLayout(t, c.img), image.ImportOptions{Limits: c.limits})
			if c.want == "-" {
				if err != nil || r.Root.Allocated > 1<<20 {
					t.Errorf("got %v, %v", r, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.Hint(err) == "" {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left := files(t, dir); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestVerify touches, changes and removes a root.
func TestVerify(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t)
	r := load(t, s, openLayout(t, app(t, v1.Config{}, "1")), nil)
	root := mustOpen(t, s, r.Config.String())
	path := root.Path
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(ctx, r, true); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil { // as a restored backup would
		t.Fatal(err)
	}
	if err := mustOpen(t, s, r.Config.String()).Close(); err != nil {
		t.Error(err)
	}
	again, err := s.Find(r.Config.String())
	if err != nil || again.Root.Seen == r.Root.Seen {
		t.Errorf("the new identity was not noted: %v, %v", again, err)
	}
	flip(t, path)
	for _, deep := range []bool{false, true} {
		if err := s.Verify(ctx, again, deep); err == nil || fault.Code(err) != string(job.ReasonImageUnknown) {
			t.Errorf("a changed root passes, deep %v: %v", deep, err)
		}
	}
	if _, err := s.Open(ctx, r.Config.String()); err == nil {
		t.Error("a changed root can be used")
	}
	load(t, s, openLayout(t, app(t, v1.Config{}, "1")), nil) // makes it good again
	if err := s.Verify(ctx, load(t, s, openLayout(t, app(t, v1.Config{}, "1")), nil), true); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(ctx, r.Config.String()); err == nil {
		t.Error("a missing root can be used")
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	if _, err := f.ReadAt(b, 4096); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, 4096); err != nil {
		t.Fatal(err)
	}
}

// TestInUse keeps an image as long as somebody has it open.
func TestInUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t)
	r := load(t, s, openLayout(t, app(t, v1.Config{}, "1")), nil)
	other := load(t, s, openLayout(t, app(t, v1.Config{}, "2")), nil)
	root := mustOpen(t, s, r.Config.String())
	if err := s.Remove(ctx, r); !errors.Is(err, image.ErrInUse) || fault.Hint(err) == "" {
		t.Errorf("Remove: %v", err)
	}
	c, err := s.Collect(ctx, func(*image.Record) bool { return false })
	if err != nil || len(c.Images) != 1 || c.Images[0].Config != other.Config {
		t.Errorf("Collect: %v, %v", c, err)
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(ctx, r); err != nil {
		t.Error(err)
	}
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("still there: %v, %v", all, err)
	}
	if _, err := os.Stat(root.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the root: %v", err)
	}
}

// TestScratchInUse: what somebody is writing isn't a leftover yet.
func TestScratchInUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "images")
	open := func() *image.Store {
		s, err := image.OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	collect := func() []string {
		c, err := open().Collect(t.Context(), func(*image.Record) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return c.Leftovers
	}
	user, left := open(), filepath.Join(dir, "tmp", "bundle-1")
	for use, want := range []int{1, 0} {
		if err := os.Mkdir(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if use == 1 {
			user.Scratch()
		}
		if got := collect(); len(got) != want {
			t.Errorf("removed %q, want %d", got, want)
		}
	}
	runtime.KeepAlive(user)
}

// TestTwoImporters imports, uses and removes one image at once.
func TestTwoImporters(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "images")
	img := app(t, v1.Config{}, strings.Repeat("x", 1<<20))
	layout := it.Layout(t, img)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := image.OpenStore(dir)
			if err != nil {
				t.Error(err)
				return
			}
			for range 4 {
				src, err := source.File(ctx, layout, source.Select{Platform: source.Host()}, "")
				if err != nil {
					t.Error(err)
					return
				}
				r, _, err := s.Import(ctx, src, image.ImportOptions{})
				if err := errors.Join(err, src.Close()); err != nil {
					t.Error(err)
					return
				}
				root, err := s.Open(ctx, r.Config.String())
				if err != nil {
					if fault.Code(err) != string(job.ReasonImageUnknown) { // removed meanwhile
						t.Error(err)
					}
					continue
				}
				if err := s.Verify(ctx, root.Record, true); err != nil {
					t.Error(err)
				}
				_ = root.Close()
				if i%2 == 0 {
					if err := s.Remove(ctx, r); err != nil && !errors.Is(err, image.ErrInUse) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, name := range files(t, dir) {
		if strings.HasPrefix(name, "tmp/") {
			t.Errorf("left behind: %s", name)
		}
	}
}

// TestKilled kills imports at random moments; the next one tidies up.
func TestKilled(t *testing.T) {
	if layout := os.Getenv("IMPORT_LAYOUT"); layout != "" {
		s, err := image.OpenStore(os.Getenv("IMPORT_STORE"))
		if err != nil {
			t.Fatal(err)
		}
		src, err := source.File(context.Background(), layout, source.Select{Platform: source.Host()}, "")
		load(t, s, src, err)
		return
	}
	t.Parallel()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "images")
	s, err := image.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	layout := it.Layout(t, app(t, v1.Config{}, strings.Repeat("y", 8<<20)))
	done, races := 0, race.Env(t)
	for i := range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "IMPORT_LAYOUT="+layout, "IMPORT_STORE="+dir, races)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+15*i) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		all, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all { // whatever has a record is whole
			done++
			if err := s.Verify(ctx, r, true); err != nil {
				t.Error(err)
			}
			if err := s.Remove(ctx, r); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := s.Collect(ctx, func(*image.Record) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if left := files(t, dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
	t.Logf("%d of 12 imports ended before they were killed", done)
}

// TestEveryBlobIsChecked changes one byte of each blob of a layout in turn.
func TestEveryBlobIsChecked(t *testing.T) {
	t.Parallel()
	tar := it.Tar(t, it.File("a", "1"))
	dir := it.Layout(t, it.Image(t, v1.Config{}, it.Plain(tar), it.Gzip(t, tar), it.Zstd(t, tar)))
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(blobs) != 5 {
		t.Fatal(blobs, err)
	}
	for _, path := range blobs {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{len(good) - 1, len(good) / 2} {
			bad := append([]byte(nil), good...)
			bad[at] ^= 1
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			src, err := source.File(context.Background(), dir, source.Select{Platform: source.Host()}, t.TempDir())
			if err != nil {
				continue
			}
			if _, _, err = newStore(t).Import(context.Background(), src, image.ImportOptions{}); err == nil {
				t.Errorf("byte %d of %s was changed, and taken: %.40q", at, filepath.Base(path), good)
			}
			_ = src.Close()
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load(t, newStore(t), openDir(t, dir), nil)
}

func openDir(t testing.TB, dir string) *source.Image {
	t.Helper()
	src, err := source.File(context.Background(), dir, source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// TestDiffIDs is IM-14: a config that promises other layers.
func TestDiffIDs(t *testing.T) {
	t.Parallel()
	img := it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("a", "1"))))
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64)
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	_, _, err = newStore(t).Import(context.Background(), openLayout(t, img), image.ImportOptions{})
	if err == nil || !strings.Contains(err.Error(), "diff ID") {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t)
	var ids []v1.Hash
	for _, body := range []string{"1", "2"} {
		r, _, err := s.Import(ctx, openLayout(t, app(t, v1.Config{}, body)), image.ImportOptions{Name: "it"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.Config)
	}
	r, err := s.Find("it")
	if err != nil || r.Config != ids[1] {
		t.Errorf("the name is not the last image's: %v, %v", r, err)
	}
	first, err := s.Find(ids[0].String())
	if err != nil || len(first.Names) != 0 {
		t.Errorf("the first image still has it: %v, %v", first, err)
	}
	if err := s.Remove(ctx, r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find("it"); err == nil {
		t.Error("the name outlives its image")
	}
}
