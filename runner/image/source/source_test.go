package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quavon/quavon/runner/fault"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/layer"
	"github.com/quavon/quavon/runner/image/source"
)

func app(t testing.TB, body string) v1.Image {
	return it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("a", body))))
}

// forPlatform changes what an image's config says it is for.
func forPlatform(t testing.TB, img v1.Image, os, arch string) v1.Image {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = os, arch
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

type entry struct {
	what mutate.Appendable
	desc v1.Descriptor
}

func plat(s string) v1.Descriptor {
	p, _ := v1.ParsePlatform(s)
	return v1.Descriptor{Platform: p}
}

func index(entries ...entry) v1.ImageIndex {
	ix := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, e := range entries {
		ix = mutate.AppendManifests(ix, mutate.IndexAddendum{Add: e.what, Descriptor: e.desc})
	}
	return ix
}

func digestOf(t testing.TB, img interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var amd = v1.Platform{OS: "linux", Architecture: "amd64"}

// TestIndexes is IM-13: what an index leads to.
func TestIndexes(t *testing.T) {
	ctx := context.Background()
	repo := it.Registry(t)
	amd64 := forPlatform(t, app(t, "amd64"), "linux", "amd64")
	arm64 := forPlatform(t, app(t, "arm64"), "linux", "arm64")
	windows := forPlatform(t, app(t, "windows"), "windows", "amd64")
	attestation := forPlatform(t, app(t, "attestation"), "unknown", "unknown")
	marked := v1.Descriptor{Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest"}}
	artifact := mutate.ConfigMediaType(app(t, "artifact"), "application/vnd.oci.empty.v1+json")
	chosen := digestOf(t, amd64)
	nest := func(ix v1.ImageIndex) v1.ImageIndex { return index(entry{ix, v1.Descriptor{}}) }
	multi := index(entry{arm64, plat("linux/arm64")}, entry{attestation, plat("unknown/unknown")}, entry{amd64, plat("linux/amd64")}, entry{attestation, marked})
	for name, c := range map[string]struct {
		what interface {
			Digest() (v1.Hash, error)
			RawManifest() ([]byte, error)
			MediaType() (types.MediaType, error)
		}
		want v1.Hash
		err  string
	}{
		"a manifest":                   {amd64, chosen, ""},
		"platforms and attestations":   {multi, chosen, ""},
		"an index in an index":         {nest(multi), chosen, ""},
		"three deep":                   {nest(nest(multi)), chosen, ""},
		"four deep":                    {nest(nest(nest(multi))), v1.Hash{}, "deeper than 3"},
		"no platforms named":           {index(entry{windows, v1.Descriptor{}}, entry{artifact, v1.Descriptor{}}, entry{amd64, v1.Descriptor{}}), chosen, ""},
		"amd64/v1 is amd64":            {index(entry{arm64, plat("linux/amd64/v3")}, entry{amd64, plat("linux/amd64/v1")}), chosen, ""},
		"only others":                  {index(entry{arm64, plat("linux/arm64")}, entry{windows, plat("windows/amd64")}), v1.Hash{}, "no image for linux/amd64, only for linux/arm64, windows/amd64"},
		"only attestations":            {index(entry{attestation, plat("unknown/unknown")}), v1.Hash{}, "no image for linux/amd64"},
		"a wrong promise":              {index(entry{arm64, plat("linux/amd64")}), v1.Hash{}, "only for linux/arm64"},
		"a manifest for another":       {arm64, v1.Hash{}, "only for linux/arm64"},
		"an attestation by its digest": {attestation, v1.Hash{}, "not an image"},
		"an artifact":                  {artifact, v1.Hash{}, "not an image"},
		"empty":                        {index(), v1.Hash{}, "no image for linux/amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			img, err := source.Registry(ctx, it.Push(t, repo, c.what), amd, source.RegistryOptions{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if img.Manifest != c.want {
				t.Errorf("got %s, want %s", img.Manifest, c.want)
			}
			wantIndex := v1.Hash{}
			if top := digestOf(t, c.what); top != c.want {
				wantIndex = top
			}
			if img.Index != wantIndex {
				t.Errorf("the index is %v, want %v", img.Index, wantIndex)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	d := "@sha256:" + strings.Repeat("0", 64)
	for ref, want := range map[string]string{
		"registry.example/app:1.2":       "can be moved",
		"registry.example/app":           "can be moved",
		"debian:12":                      "can be moved",
		"registry.example/app:1.2" + d:   "a tag and a digest",
		"registry.example:5000/app" + d:  "",
		"registry.example/app" + d:       "",
		"registry.example/app@sha256:00": "can't read the reference",
		"registry.example/app@md5:00":    "can't read the reference",
		"@sha256:":                       "can't read the reference",
	} {
		_, err := source.ParseDigest(ref, false)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", ref, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || fault.Hint(err) == ""):
			t.Errorf("%s: got %v with the hint %q, want %q", ref, err, fault.Hint(err), want)
		}
	}
}

// hostile serves documents by digest, whatever their content.
func hostile(t *testing.T, docs map[string]string, typ types.MediaType) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		body, ok := docs[name]
		switch {
		case r.URL.Path == "/v2/":
		case !ok:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", string(typ))
			w.Header().Set("Docker-Content-Digest", name)
			_, _ = w.Write([]byte(body))
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/app@"
}

// TestHostileRegistry is IM-14 and its kin: every hop is checked.
func TestHostileRegistry(t *testing.T) {
	sum := func(s string) string { return layer.Digest([]byte(s)).String() }
	config := `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}`
	manifest := func(config string, layers string) string {
		return `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` + sum(config) + `","size":` + itoa(len(config)) + `},"layers":[` + layers + `]}`
	}
	gz := func(typ string) string {
		return `{"mediaType":"` + typ + `","digest":"` + sum("x") + `","size":1,"urls":["http://169.254.169.254/"]}`
	}
	good := manifest(config, "")
	for name, c := range map[string]struct {
		docs map[string]string
		top  string
		want string
	}{
		"nothing wrong":               {map[string]string{sum(good): good, sum(config): config}, good, ""},
		"another manifest":            {map[string]string{sum(good): good + " ", sum(config): config}, good, "digest"},
		"another config":              {map[string]string{sum(good): good, sum(config): strings.Replace(config, "linux", "linuX", 1)}, good, "error verifying sha256"},
		"a longer config":             {map[string]string{sum(good): good, sum(config): config + " "}, good, "error verifying sha256"},
		"manifest and index at once":  single(`{"schemaVersion":2,"config":{},"layers":[],"manifests":[]}`, "neither a manifest nor an index"),
		"an index that says manifest": single(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","manifests":[]}`, "has the type"),
		"schema 1":                    single(`{"schemaVersion":1,"fsLayers":[]}`, "neither a manifest nor an index"),
		"no JSON":                     single(`hello`, "invalid character"),
		"5 MiB":                       single(`{"schemaVersion":2,"x":"`+strings.Repeat("x", 5<<20)+`"}`, "more than 4194304"),
		"IM-25 a foreign layer":       withConfig(manifest, gz("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"), "outside the registry"),
		"IM-12 an unknown layer":      withConfig(manifest, gz("application/vnd.oci.image.layer.v1.tar+foo"), "+foo"),
		"layers without diff IDs":     {map[string]string{sum(manifest(config, gz("application/vnd.oci.image.layer.v1.tar"))): manifest(config, gz("application/vnd.oci.image.layer.v1.tar")), sum(config): config}, manifest(config, gz("application/vnd.oci.image.layer.v1.tar")), "lists 0 layers, the image has 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := source.Registry(context.Background(), hostile(t, c.docs, "")+sum(c.top), amd, source.RegistryOptions{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

type hostileCase = struct {
	docs map[string]string
	top  string
	want string
}

func single(doc, want string) hostileCase {
	return hostileCase{map[string]string{layer.Digest([]byte(doc)).String(): doc}, doc, want}
}

// withConfig makes a manifest of one layer whose config has one diff ID.
func withConfig(manifest func(config, layers string) string, l, want string) hostileCase {
	config := `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["sha256:` + strings.Repeat("0", 64) + `"]}}`
	m := manifest(config, l)
	c := single(m, want)
	c.docs[layer.Digest([]byte(config)).String()] = config
	return c
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// TestArchives imports from files that hold more than one image, or less.
func TestArchives(t *testing.T) {
	ctx := context.Background()
	one, two := app(t, "1"), app(t, "2")
	id, err := two.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	both := it.Layout(t, one, two)
	saved := it.DockerArchive(t, two, "app:2")
	for name, c := range map[string]struct {
		path string
		sel  source.Select
		want string
	}{
		"layout, by manifest":          {both, source.Select{Digest: digestOf(t, two)}, ""},
		"layout, ambiguous":            {both, source.Select{}, "more than one image: sha256:"},
		"layout, not there":            {both, source.Select{Digest: layer.Digest(nil)}, "no blob"},
		"layout tar, by manifest":      {it.TarDir(t, both), source.Select{Digest: digestOf(t, two)}, ""},
		"docker-archive":               {saved, source.Select{}, ""},
		"docker-archive, by name":      {saved, source.Select{Name: "app:2"}, ""},
		"docker-archive, by config":    {saved, source.Select{Digest: id}, ""},
		"docker-archive, another name": {saved, source.Select{Name: "app:3"}, "no such image"},
		"nothing":                      {t.TempDir(), source.Select{}, "index.json"},
		"no file":                      {filepath.Join(t.TempDir(), "x"), source.Select{}, "no such file"},
		"another tar":                  {write(t, it.Tar(t, it.File("a", "1"))), source.Select{}, "neither an OCI layout nor a docker-archive"},
		"no tar":                       {write(t, []byte(strings.Repeat("hello", 1000))), source.Select{}, "tar"},
		"a packed docker-archive":      {write(t, it.Gzip(t, readAll(t, saved)).Packed), source.Select{}, ""},
		"a config under another name":  {write(t, rename(t, saved, id.Hex, strings.Repeat("0", 64))), source.Select{}, "want sha256:0000"},
	} {
		t.Run(name, func(t *testing.T) {
			c.sel.Platform = source.Host()
			img, err := source.File(ctx, c.path, c.sel, t.TempDir())
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer img.Close()
			if img.Config != id {
				t.Errorf("got %s, want %s", img.Config, id)
			}
		})
	}
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rename gives the config of a docker-archive another name.
func rename(t *testing.T, path, from, to string) []byte {
	t.Helper()
	b := []byte(strings.ReplaceAll(string(readAll(t, path)), from, to))
	for at := 0; at+512 <= len(b); at += 512 {
		if h := b[at : at+512]; string(h[257:262]) == "ustar" {
			copy(h[148:156], "        ")
			sum := 0
			for _, c := range h {
				sum += int(c)
			}
			copy(h[148:156], []byte(oct(sum)+"\x00 "))
		}
	}
	return b
}

func oct(n int) string {
	s := ""
	for range 6 {
		s = string(rune('0'+n%8)) + s
		n /= 8
	}
	return s
}

func TestDaemon(t *testing.T) {
	img := app(t, "1")
	saved := readAll(t, it.DockerArchive(t, img, "app:1"))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/images/get" || r.URL.Query().Get("names") != "app:1" {
			http.Error(w, `{"message":"No such image"}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write(saved)
	}))
	defer s.Close()
	t.Setenv("DOCKER_HOST", strings.Replace(s.URL, "http", "tcp", 1))
	sel := source.Select{Platform: source.Host()}
	got, err := source.Daemon(context.Background(), "app:1", sel, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if id, err := img.ConfigName(); err != nil || got.Config != id {
		t.Errorf("got %s, want %s, %v", got.Config, id, err)
	}
	_, err = source.Daemon(context.Background(), "app:2", sel, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "No such image") || fault.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	t.Setenv("DOCKER_HOST", "ssh://host")
	if _, err = source.Daemon(context.Background(), "app:1", sel, t.TempDir()); fault.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Errorf("no fault: %v", err)
	}
}
