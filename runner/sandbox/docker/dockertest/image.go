package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// Busybox is an image with a shell, the usual tools and mount points for the
// conformance suite; more is added to it.
func Busybox(t testing.TB, c v1.Config, more ...imagetest.Entry) v1.Image {
	t.Helper()
	binary, err := os.ReadFile("/bin/busybox")
	if err != nil {
		sandboxtest.Skip(t, "busybox-static is missing: %v", err)
	}
	out, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	entries := []imagetest.Entry{
		imagetest.Dir("bin"), {Name: "bin/busybox", Body: string(binary), Mode: 0o755},
		imagetest.Dir("etc"), imagetest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
		imagetest.Dir("workspace"), imagetest.Dir("mnt"), imagetest.Dir("mnt/probe"), imagetest.Dir("usr"),
		imagetest.Dir("root"), {Type: '5', Name: "app", Mode: 0o755, UID: 1000, GID: 1000},
	}
	for applet := range strings.FieldsSeq(string(out)) {
		if applet != "busybox" {
			// The engine gives a link's mode to what it leads to.
			link := imagetest.Link("bin/"+applet, "bin/busybox")
			link.Mode = 0o755
			entries = append(entries, link)
		}
	}
	return imagetest.Image(t, c, imagetest.Gzip(t, imagetest.Tar(t, append(entries, more...)...)))
}

// Add puts an image into the engine and returns a lock that pins it.
func (e *Engine) Add(t testing.TB, img v1.Image, source lock.Source) *lock.File {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag("quavon.test/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + ":1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(archive, tag, img); err != nil {
		t.Fatal(err)
	}
	e.Load(t, archive)
	return Lock(t, img, source)
}

// Lock pins one image.
func Lock(t testing.TB, img v1.Image, source lock.Source) *lock.File {
	t.Helper()
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	p := lock.Platform{Platform: "linux/" + runtime.GOARCH, Config: config.String()}
	if source == lock.SourceRegistry {
		p.Manifest = manifest.String()
	}
	for _, d := range cf.RootFS.DiffIDs {
		p.DiffIDs = append(p.DiffIDs, d.String())
	}
	return &lock.File{SchemaVersion: lock.SchemaVersion, Builder: lock.Builder{Version: "test", Format: 1}, Images: []lock.Image{{
		Name: "test", Source: source, Ref: "quavon.test/test", Platforms: []lock.Platform{p},
	}}}
}
