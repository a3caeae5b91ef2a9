package commands

import (
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// testImages makes one image available in every place images come from; scripts
// find it by these variables.
func testImages(t *testing.T) map[string]string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		sandboxtest.Skip(t, "busybox-static is missing: %v", err)
	}
	entries := []it.Entry{it.Dir("bin"), {Name: "bin/busybox", Body: string(busybox), Mode: 0o755}}
	for _, applet := range []string{"sh", "cat", "id", "test", "true"} {
		entries = append(entries, it.Link("bin/"+applet, "bin/busybox"))
	}
	entries = append(entries, it.Dir("etc"), it.File("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
		it.Dir("root"), it.Entry{Type: '5', Name: "app", Mode: 0o755, UID: 1000, GID: 1000}, it.Entry{Type: '3', Name: "dev/console", Major: 5, Minor: 1})
	img := it.Image(t, v1.Config{
		User: "app", Env: []string{"A=b", "B=d"}, WorkingDir: "/app",
		Entrypoint: []string{"sh", "-c"}, Cmd: []string{"echo command of the image in $(pwd) as $(id -u)"},
	}, it.Gzip(t, it.Tar(t, entries...)))
	repo := it.Registry(t)
	return map[string]string{
		"ARCHIVE": it.DockerArchive(t, img, "box:latest"), "LAYOUT": it.Layout(t, img),
		"PULL": it.Push(t, repo, img), "REPO": repo.String(), "LOCK": writeLock(t, repo.String(), img),
	}
}

// writeLock locks the image under the name "locked".
func writeLock(t *testing.T, repo string, img v1.Image) string {
	t.Helper()
	manifest, err1 := img.Manifest()
	digest, err2 := img.Digest()
	layer := manifest.Layers[0]
	c, err3 := img.ConfigFile()
	l := lock.File{SchemaVersion: 1, Builder: lock.Builder{Version: "test", Format: 1}, Images: []lock.Image{{
		Name: "locked", Source: lock.SourceRegistry, Ref: repo, Platforms: []lock.Platform{{
			Platform: source.Host().String(), Manifest: digest.String(), Config: manifest.Config.Digest.String(),
			DiffIDs: []string{c.RootFS.DiffIDs[0].String()},
			Layers:  []lock.Layer{{Digest: layer.Digest.String(), Size: layer.Size, MediaType: string(layer.MediaType)}},
		}},
	}}}
	raw, err4 := l.Encode()
	path := filepath.Join(t.TempDir(), "lock")
	for _, err := range []error{err1, err2, err3, err4, os.WriteFile(path, raw, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}
