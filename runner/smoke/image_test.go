package smoke_test

import (
	"os"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/test/need"
)

// rootImage gives a runner an image that names no user: its jobs are root.
func rootImage(t *testing.T, r *runner.Runner) string {
	t.Helper()
	img := dockertest.Busybox(t, v1.Config{})
	src, err := source.File(t.Context(), imagetest.Layout(t, img), source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if r.Images, err = image.OpenStore(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	rec, _, err := r.Images.Import(t.Context(), src, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rec.Config.String()
}

// TestProductionRoot shows that root of a sandbox doesn't get out either. What asks root
// something else is in the quick set.
func TestProductionRoot(t *testing.T) {
	t.Parallel()
	r := productionRunner(t)
	allHold(t, smoke.For(r, rootImage(t, r)), bound(t, r.Backend), false)
}

// TestMutationsRoot does what TestMutations does for the probes that ask root something
// else, with jobs that are meant to be root.
func TestMutationsRoot(t *testing.T) {
	need.That(t, os.Geteuid() == 0, "root, who alone weakens sandboxes")
	t.Parallel()
	must := map[string][]string{}
	var ids []string
	for _, e := range smoke.Catalogue() {
		for _, arm := range e.AsRoot {
			must[arm] = append(must[arm], e.ID)
		}
		if e.AsRoot != nil {
			ids = append(ids, e.ID)
		}
	}
	for arm, want := range must {
		t.Run(arm, func(t *testing.T) {
			t.Parallel()
			broken := brokenIn(t, weakenedRoot(t, arm), ids)
			slices.Sort(want)
			if !slices.Equal(broken, want) {
				t.Errorf("broken  %v\nmust be %v", broken, want)
			}
		})
	}
}
