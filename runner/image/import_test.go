package image_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
)

func newStore(t testing.TB) *image.Store {
	t.Helper()
	s, err := image.OpenStore(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// load imports an image and closes it.
func load(t testing.TB, s *image.Store, img *source.Image, err error) *image.Record {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	r, _, err := s.Import(context.Background(), img, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSourcesAgree imports one image from all sources that need no daemon.
func TestSourcesAgree(t *testing.T) {
	ctx := context.Background()
	layers := imagetest.Random(rand.New(rand.NewPCG(1, 1)), 4)
	var blobs []imagetest.Blob
	pack := []func(testing.TB, []byte) imagetest.Blob{imagetest.Gzip, imagetest.Zstd}
	for i, l := range layers {
		blobs = append(blobs, pack[i%2](t, imagetest.Tar(t, l...)))
	}
	img := imagetest.Image(t, v1.Config{User: "0", WorkingDir: "/"}, blobs...)
	layout := imagetest.Layout(t, img)
	sel := source.Select{Platform: source.Host()}
	sources := map[string]func() (*source.Image, error){
		"registry": func() (*source.Image, error) {
			return source.Registry(ctx, imagetest.Push(t, imagetest.Registry(t), img), source.Host(), source.RegistryOptions{})
		},
		"layout":     func() (*source.Image, error) { return source.File(ctx, layout, sel, t.TempDir()) },
		"layout tar": func() (*source.Image, error) { return source.File(ctx, imagetest.TarDir(t, layout), sel, t.TempDir()) },
		"docker-archive": func() (*source.Image, error) {
			return source.File(ctx, imagetest.DockerArchive(t, img), sel, t.TempDir())
		},
	}
	var first *image.Record
	for name, open := range sources {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			src, err := open()
			got := load(t, s, src, err)
			if first == nil {
				first = got
				root, err := s.Open(ctx, got.Config.String())
				if err != nil {
					t.Fatal(err)
				}
				imagetest.Fsck(t, root.Path)
				if err := root.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(first.Root.Hash, got.Root.Hash); d != "" {
				t.Errorf("another root than from the first source:\n%s", d)
			}
			if d := cmp.Diff(first.Config, got.Config); d != "" {
				t.Errorf("another config:\n%s", d)
			}
			if left, _ := filepath.Glob(filepath.Join(t.TempDir(), "*")); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	_ = os.Getenv
}
