package imagetest

import (
	"encoding/json"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// DockerArchive writes an image as `docker save` did before it wrote OCI layouts
// too: plain layers, the config under its digest.
func DockerArchive(t testing.TB, img v1.Image, tags ...string) string {
	t.Helper()
	config, err := img.RawConfigFile()
	must(t, err)
	id, err := img.ConfigName()
	must(t, err)
	layers, err := img.Layers()
	must(t, err)
	entries := []Entry{File(id.Hex+".json", string(config))}
	var names []string
	for _, l := range layers {
		r, err := l.Uncompressed()
		must(t, err)
		body, err := io.ReadAll(r)
		must(t, err)
		diff, err := l.DiffID()
		must(t, err)
		names = append(names, diff.Hex+"/layer.tar")
		entries = append(entries, File(names[len(names)-1], string(body)))
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": id.Hex + ".json", "RepoTags": tags, "Layers": names}})
	must(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(path, Tar(t, append(entries, File("manifest.json", string(manifest)))...), 0o600))
	return path
}

// TarDir packs a directory, such as an OCI layout.
func TarDir(t testing.TB, dir string) string {
	t.Helper()
	var entries []Entry
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		entries = append(entries, File(rel, string(body)))
		return err
	}))
	path := filepath.Join(t.TempDir(), "layout.tar")
	must(t, os.WriteFile(path, Tar(t, entries...), 0o600))
	return path
}
