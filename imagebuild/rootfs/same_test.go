package rootfs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/imagebuild/rootfs"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/test/race"
)

var variants = []rootfs.Options{
	{Kind: lock.KindExt4},
	{Kind: lock.KindExt4, Free: 40 << 20, Journal: ext4.MinJournal, Resize: true},
	{Kind: lock.KindExt4, Size: 64 << 20},
	{Kind: lock.KindEROFS},
}

// golden are the digests of goldenImage for linux/amd64, one for each variant. They
// change only with the formats' versions.
var golden = []string{
	"90632576f5cbaffb2d4e51680e71a16716806d0ce093707194eb999c55265fc0",
	"84f6a44dd4a277b0075245f3cb58814ef65b2b1587170b301f718c59f5a0d0f9",
	"7dc6162540beafe2749edcab09999446a5270caf88a291c859f666b74ff91a93",
	"3c8a30cf14b4e25323cb1981456a82302e9bdc878704702c6e84dd867e7c6da7",
}

// goldenImage has three layers that meet, in one of several packings.
func goldenImage(t *testing.T, pack func(testing.TB, []byte) it.Blob) v1.Image {
	t.Helper()
	many := []it.Entry{it.Dir("./"), it.Dir("many")}
	for k := range 600 {
		many = append(many, it.File(fmt.Sprintf("many/%d", k), strings.Repeat("x", k*7)))
	}
	var blobs []it.Blob
	for _, l := range [][]it.Entry{many, odd(), {it.File("many/.wh.7", ""), it.File("many/8", "new"), it.Link("many/9", "sparse")}} {
		blobs = append(blobs, pack(t, it.Tar(t, l...)))
	}
	return it.Image(t, v1.Config{}, blobs...)
}

// TestSameBytes makes one image from every kind of source and layer, in different
// directories, with one processor and with two.
func TestSameBytes(t *testing.T) {
	plain := func(_ testing.TB, b []byte) it.Blob { return it.Plain(b) }
	want := goldenImage(t, it.Gzip)
	sources := map[string]*source.Image{
		"gzip": open(t, it.Layout(t, want)), "zstd": open(t, it.Layout(t, goldenImage(t, it.Zstd))),
		"plain": open(t, it.Layout(t, goldenImage(t, plain))), "docker-archive": open(t, it.DockerArchive(t, want, "x:y")),
		"registry": pull(t, it.Push(t, it.Registry(t), want)),
	}
	for name, img := range sources {
		for _, procs := range []int{1, 2} {
			old := runtime.GOMAXPROCS(procs)
			for i, o := range variants {
				made, _, err := new(rootfs.Maker).Make(t.Context(), img, filepath.Join(t.TempDir(), "image"), o)
				must(t, err)
				if runtime.GOARCH == "amd64" && made.SHA256 != golden[i] {
					t.Errorf("%+v from %s with %d processors: %s", o, name, procs, made.SHA256)
				}
			}
			runtime.GOMAXPROCS(old)
		}
	}
}

func pull(t *testing.T, ref string) *source.Image {
	t.Helper()
	img, err := source.Registry(t.Context(), ref, source.Host(), source.RegistryOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, img.Close()) })
	return img
}

// TestRandomImagesTwice is the same for images of every kind of entry.
func TestRandomImagesTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		var tars [][]byte
		for _, l := range it.Random(r, 1+r.IntN(4)) {
			tars = append(tars, it.Tar(t, l...))
		}
		o := variants[seed%uint64(len(variants))]
		var sums []string
		for range 2 {
			made, _, err := new(rootfs.Maker).Make(t.Context(), open(t, layout(t, tars...)), filepath.Join(t.TempDir(), "image"), o)
			must(t, err)
			sums = append(sums, made.SHA256)
		}
		if sums[0] != sums[1] {
			t.Errorf("seed %d, %+v: %s", seed, o, sums)
		}
	}
}

// TestNoClock finds neither a clock nor chance in the packages that decide on an
// image's bytes. test/qemu builds one under another kernel and on another day, too.
func TestNoClock(t *testing.T) {
	t.Parallel()
	module := strings.TrimSpace(it.Run(t, "go", "list", "-m", "-f", "{{.Dir}}"))
	chance := regexp.MustCompile(`\btime\.Now|\btime\.Since|"math/rand|"crypto/rand|os\.Hostname|os\.Getenv`)
	for _, dir := range []string{"imagebuild/rootfs", "imagebuild/ext4", "runner/image/erofs", "runner/image/flatten", "runner/image/stack"} {
		files, err := filepath.Glob(filepath.Join(module, dir, "*.go"))
		must(t, err)
		if len(files) == 0 {
			t.Errorf("%s has no files", dir)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			code, err := os.ReadFile(f)
			must(t, err)
			if found := chance.Find(code); found != nil {
				t.Errorf("%s uses %s", f, found)
			}
		}
	}
}

// TestKill kills a build in the middle, which leaves nothing.
func TestKill(t *testing.T) {
	const child = "QUAVON_ROOTFS_CHILD"
	if dir := os.Getenv(child); dir != "" {
		m := rootfs.Maker{Progress: func(done, _ int64) {
			if done > 1<<20 {
				must(t, exec.Command("kill", "-9", fmt.Sprint(os.Getpid())).Run())
			}
		}}
		_, _, err := m.Make(t.Context(), open(t, os.Getenv(child+"_FROM")), filepath.Join(dir, "image"), variants[0])
		t.Fatalf("it lived on: %v", err)
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), child+"="+dir, child+"_FROM="+bigLayout(t), race.Env(t))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("%v\n%s", err, out)
	}
	empty(t, dir)
}

// bigLayout is an image that isn't read in one piece.
func bigLayout(t *testing.T) string {
	noise := make([]byte, 4<<20)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	l := it.Tar(t, it.File("a", string(noise)), it.File("b", string(noise[1:])))
	return layout(t, l, it.Tar(t, it.File("c", string(noise))))
}

func empty(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) > 0 {
		t.Errorf("left: %v", files)
	}
}
