package dockertest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/test/need"
)

// Busybox is an image with a shell, the usual tools and mount points for the
// conformance suite; more is added to it.
func Busybox(t testing.TB, c v1.Config, more ...imagetest.Entry) v1.Image {
	t.Helper()
	binary, err := os.ReadFile("/bin/busybox")
	if err != nil {
		need.Skip(t, "busybox-static is missing: %v", err)
	}
	out, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	entries := []imagetest.Entry{
		imagetest.Dir("bin"),
		{Name: "bin/busybox", Body: string(binary), Mode: 0o755},
		imagetest.Dir("etc"), imagetest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
		imagetest.Dir("workspace"), imagetest.Dir("mnt"), imagetest.Dir("mnt/probe"), imagetest.Dir("usr"),
		imagetest.Dir("root"),
		{Type: '5', Name: "app", Mode: 0o755, UID: 1000, GID: 1000},
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
func (e *Engine) Add(t testing.TB, img v1.Image) *lock.File {
	t.Helper()
	e.Load(t, archive(t, img))
	return Lock(t, img)
}

// archive is an image as `docker save` writes it: an OCI layout, for which an engine
// with containerd's image store keeps the manifest, with the list that the classic
// store reads.
func archive(t testing.TB, img v1.Image) string {
	t.Helper()
	dir := imagetest.Layout(t, img)
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	list := []map[string]any{{"Config": blob(config), "RepoTags": []string{}}}
	var layers []string
	for _, l := range m.Layers {
		layers = append(layers, blob(l.Digest))
	}
	list[0]["Layers"] = layers
	data, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "manifest.json"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if out, err := exec.Command("tar", "-C", dir, "-cf", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v %s", err, out)
	}
	return file
}

// Lock pins one image.
func Lock(t testing.TB, img v1.Image) *lock.File {
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
	p := lock.Platform{Platform: "linux/" + runtime.GOARCH, Manifest: manifest.String(), Config: config.String()}
	for _, d := range cf.RootFS.DiffIDs {
		p.DiffIDs = append(p.DiffIDs, d.String())
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Layers {
		p.Layers = append(p.Layers, lock.Layer{Digest: d.Digest.String(), Size: d.Size, MediaType: string(d.MediaType)})
	}
	return &lock.File{SchemaVersion: lock.SchemaVersion, Builder: lock.Builder{Version: "test", Format: 1}, Images: []lock.Image{{
		Name: "test", Source: lock.SourceLayout, Ref: "layout", Platforms: []lock.Platform{p},
	}}}
}
