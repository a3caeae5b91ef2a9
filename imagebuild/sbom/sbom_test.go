package sbom_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/sbom"
	"github.com/quavon/quavon/runner/image"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
)

var update = flag.Bool("update", false, "write the golden document anew")

// rootOf imports layers and opens what became of them.
func rootOf(t *testing.T, layers ...[]it.Entry) *os.File {
	t.Helper()
	var blobs []it.Blob
	for _, entries := range layers {
		blobs = append(blobs, it.Gzip(t, it.Tar(t, entries...)))
	}
	img, err := source.File(t.Context(), it.DockerArchive(t, it.Image(t, v1.Config{}, blobs...)), source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	s, err := image.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Import(t.Context(), img, image.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	root, err := s.Open(t.Context(), img.Config.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	f, err := os.Open(root.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

const dpkgStatus = `Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12
Description: C library
 Version: not a field

Package: gone
Status: deinstall ok config-files
Version: 1

Package: zlib1g
Status: hold ok installed
Architecture: amd64
Version: 1:1.3.dfsg+really1.3.1-1+b1
`

func TestScan(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	modules := "usr/lib/node_modules/"
	got, err := sbom.Scan(rootOf(t, []it.Entry{
		it.File("etc/os-release", "NAME=\"Debian\"\nID=debian\n"), it.File("var/lib/dpkg/status", dpkgStatus),
		it.File(modules+"typescript/package.json", `{"name": "typescript", "version": "5.9.2"}`),
		it.File(modules+"deleted/package.json", `{"name": "deleted", "version": "1.0.0"}`),
		it.File(modules+"@types/node/package.json", `{"name": "@types/node", "version": "24.1.0"}`),
		it.File(modules+"typescript/lib/package.json", `{"name": "inner", "version": "1"}`),
		it.File(modules+"broken/package.json", `{`),
		it.File("usr/lib/python3/dist-packages/Bandit_x-1.8.6.dist-info/METADATA", "Name: Bandit_x\nVersion: 1.8.6\n\nName: in the text\nVersion: 3\n"),
		it.File("usr/local/go/VERSION", "go1.26.0\ntime 2026\n"),
	}, []it.Entry{
		it.File(modules+".wh.deleted", ""),
		{Name: "usr/bin/tool", Body: string(program), Mode: 0o755},
		{Name: "usr/bin/text", Body: string(bytes.Repeat([]byte("x"), 5000)), Mode: 0o755},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	golang := map[string]bool{}
	for _, p := range got {
		if p.Type == "golang" {
			golang[p.Name] = true
			continue
		}
		urls = append(urls, p.URL())
	}
	want := []string{
		"pkg:deb/debian/libc6@2.41-12?arch=amd64", "pkg:deb/debian/zlib1g@1:1.3.dfsg%2Breally1.3.1-1%2Bb1?arch=amd64",
		"pkg:generic/go@1.26.0", "pkg:npm/%40types/node@24.1.0", "pkg:npm/typescript@5.9.2", "pkg:pypi/bandit-x@1.8.6",
	}
	if d := cmp.Diff(want, urls); d != "" {
		t.Error(d)
	}
	if !golang["stdlib"] || !golang["github.com/quavon/quavon"] {
		t.Errorf("of a Go program: %v", golang)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	list, err := sbom.Scan(rootOf(t, []it.Entry{it.File("var/lib/dpkg/status", dpkgStatus), it.File("lib/apk/db/installed", "P:musl\nV:1.2.5-r9\nA:x86_64\n\n")}))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sbom.Encode("tools", "sha256:12", list)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "tools.cdx.json")
	if *update {
		if err := os.WriteFile(golden, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(raw)); d != "" {
		t.Error(d)
	}
	back, err := sbom.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(list, back, cmpopts.IgnoreUnexported(sbom.Package{})); d != "" {
		t.Error(d)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before := []sbom.Package{{Type: "deb", Name: "a", Version: "1"}, {Type: "deb", Name: "b", Version: "1"}, {Type: "npm", Name: "c", Version: "2"}, {Type: "npm", Name: "c", Version: "1"}}
	after := []sbom.Package{{Type: "deb", Name: "a", Version: "1"}, {Type: "npm", Name: "c", Version: "2"}, {Type: "npm", Name: "d", Version: "1"}}
	want := []sbom.Change{{"deb", "b", "1", ""}, {"npm", "c", "1, 2", "2"}, {"npm", "d", "", "1"}}
	if d := cmp.Diff(want, sbom.Diff(before, after)); d != "" {
		t.Error(d)
	}
}
