package lock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/lock"
)

func d(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func sample() *lock.File {
	return &lock.File{
		SchemaVersion: 1, Builder: lock.Builder{Version: "0.3.0", Format: 1}, Inputs: d("1"),
		Images: []lock.Image{
			{Name: "daemon", Source: lock.SourceDockerDaemon, Ref: "app", Platforms: []lock.Platform{
				{Platform: "linux/amd64", Config: d("2"), DiffIDs: []string{d("3")}},
			}},
			{Name: "node", Source: lock.SourceRegistry, Ref: "registry.example:5000/node", Index: d("4"), SourceDigest: d("5"), Platforms: []lock.Platform{
				{
					Platform: "linux/amd64", Manifest: d("6"), Config: d("7"), Base: []string{d("8")}, DiffIDs: []string{d("9")},
					Size: 8192, SBOM: &lock.Document{Path: "images/node.cdx.json", SHA256: strings.Repeat("1", 64), Size: 99},
					Layers:    []lock.Layer{{Digest: d("a"), Size: 10, MediaType: "application/vnd.oci.image.layer.v1.tar+gzip"}},
					Signature: &lock.Signature{Issuer: "https://accounts.example", Identity: "ci@example", TrustedRoot: d("c"), Bundle: d("b")},
					Artefacts: []lock.Artefact{{Path: "images/node.erofs", Kind: lock.KindEROFS, Options: map[string]string{"free": "1GiB"}, SHA256: strings.Repeat("c", 64), Size: 4096, Allocated: 4096}},
				},
				{
					Platform: "linux/arm64", Manifest: d("d"), Config: d("e"), Base: []string{d("8")}, Signature: &lock.Signature{Key: d("f"), Bundle: d("0")},
					BaseSignatures: []lock.BaseSignature{{Base: d("8"), Signature: lock.Signature{Key: d("1"), Bundle: d("2")}}},
				},
			}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	want := sample()
	raw, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), lock.DefaultName)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := lock.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(raw), string(again)); d != "" {
		t.Errorf("the second encoding differs:\n%s", d)
	}
	img, p := got.Find("node", v1.Platform{OS: "linux", Architecture: "arm64"})
	if img == nil || p.Manifest != d("d") {
		t.Errorf("Find returned %v, %v", img, p)
	}
	if img, _ := got.Find("node", v1.Platform{OS: "linux", Architecture: "s390x"}); img != nil {
		t.Error("Find made up a platform")
	}
}

// mistake is a change to a good lock, and what the reader says of it.
type mistake struct{ from, to, want string }

// refused are mistakes in the sample's encoding.
func refused(good string) map[string]mistake {
	return map[string]mistake{
		"no newline":         {good, strings.TrimSuffix(good, "\n"), "lock.json:96: the file doesn't end in a newline"},
		"empty":              {good, "\n", "lock.json:1: the document ends too early"},
		"trailing comma":     {`"format": 1`, `"format": 1,`, "lock.json:6: invalid character"},
		"comment":            {`"builder"`, "// c\n  \"builder\"", "lock.json:3: invalid character"},
		"two documents":      {good, good + good, "lock.json:97: something follows"},
		"unknown field":      {`"inputs"`, `"input"`, `lock.json:7: the lock has an unknown field "input"`},
		"field in capitals":  {`"images"`, `"Images"`, `the lock has an unknown field "Images"`},
		"twice":              {`"format": 1`, `"format": 1, "format": 1`, `lock.json:5: "format" is there twice`},
		"version":            {`"schemaVersion": 1`, `"schemaVersion": 2`, "schemaVersion 2, this program reads 1"},
		"version as text":    {`"schemaVersion": 1`, `"schemaVersion": "1"`, "schemaVersion is not an integer"},
		"tag":                {`5000/node"`, `5000/node:22"`, `lock.json:26: images[1]`},
		"tag, why":           {`5000/node"`, `5000/node:22"`, "pinned by digest only"},
		"not UTF-8":          {"https://accounts", "\xff", "lock.json:54: the text is not UTF-8"},
		"short digest":       {d("7"), "sha256:77", `lock.json:33: `},
		"another algorithm":  {d("7"), "sha512:" + strings.Repeat("7", 128), "config \"sha512:"},
		"no manifest":        {`"manifest": "` + d("6") + `",`, "", `has no "manifest"`},
		"layer missing":      {`"size": 10`, `"size": -1`, "size is not an integer of at least 0"},
		"order":              {`"name": "daemon"`, `"name": "zdaemon"`, `image "node" behind "zdaemon"`},
		"platform twice":     {`"linux/arm64"`, `"linux/amd64"`, `platform "linux/amd64" behind "linux/amd64"`},
		"signature":          {`"identity": "ci@example",`, "", "neither by a key nor by an issuer, an identity and a trusted root"},
		"no trusted root":    {`"trustedRoot": "` + d("c") + `",`, "", "neither by a key nor by an issuer"},
		"another's base":     {`"base": "` + d("8") + `",`, `"base": "` + d("9") + `",`, "which is none of its bases"},
		"artefact elsewhere": {"images/node.erofs", "../node.erofs", "not a clean path"},
		"size":               {`"size": 8192`, `"size": 0`, "size is not an integer of at least 1"},
		"sbom elsewhere":     {"images/node.cdx.json", "/images/node.cdx.json", "not a clean path"},
		"sbom, unknown":      {`"size": 99`, `"size": 99, "x": 1`, `sbom has an unknown field "x"`},
		"artefact kind":      {`"erofs"`, `"squashfs"`, "is unknown"},
		"platform":           {`"linux/arm64"`, `"arm64"`, "is not os/architecture"},
		"a list for text":    {`"ref": "app"`, `"ref": ["app"]`, "ref is not a string"},
		"an object for list": {`"images": [`, `"images": {}, "x": [`, "unknown field"},
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	raw, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	for name, c := range refused(good) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := strings.Replace(good, c.from, c.to, 1)
			if bad == good {
				t.Fatal("the case changes nothing")
			}
			_, err := lock.Parse("lock.json", []byte(bad))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	raw, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("{\"schemaVersion\":1,\"builder\":{\"version\":\"x\",\"format\":1},\"images\":[]}\n"))
	f.Add([]byte("[[[[[[[[[[[[[[[[[[[[[[\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := lock.Parse("lock.json", b)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "lock.json:") {
				t.Errorf("no line in %v", err)
			}
			return
		}
		first, err := l.Encode()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		again, err := lock.Parse("lock.json", first)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if d := cmp.Diff(l, again); d != "" {
			t.Errorf("another lock:\n%s", d)
		}
	})
}
