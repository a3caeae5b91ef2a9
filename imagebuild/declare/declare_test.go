package declare_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/imagebuild/declare"
)

var digest = "sha256:" + strings.Repeat("a", 64)

func example(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/images.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestExample(t *testing.T) {
	t.Parallel()
	got, err := declare.Read("testdata/images.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &declare.File{
		Dir: "testdata",
		Bases: []declare.Base{
			{Name: "debian", Recipe: "bases/debian"},
			{
				Name: "node", Ref: "registry.example/library/node@" + digest,
				Signature: &declare.Policy{Issuer: "https://accounts.example", Identity: "release@example", TrustedRoot: "keys/trusted_root.json"},
			},
		},
		Images: []declare.Image{
			{
				Name: "app", Ref: "registry.example/team/app@" + digest, Platforms: []string{"linux/amd64", "linux/arm64"},
				Signature: &declare.Policy{Key: "keys/team.pub"},
			},
			{
				Name: "quavon", Executable: "self", Platforms: []string{"linux/amd64"},
			},
			{
				Name: "tools", Context: "tools", Dockerfile: "Dockerfile", Target: "final", Platforms: []string{"linux/amd64"},
				Bases: map[string]string{"BASE": "debian", "NODE": "node"}, Args: map[string]string{"RUFF_VERSION": "0.14.3"},
				Artefacts: []declare.Artefact{
					{Kind: "ext4", Options: map[string]string{"free": "1GiB", "journal": "true"}},
					{Kind: "erofs"},
				},
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Image("tools") == nil || got.Image("none") != nil || got.Base("node") == nil || got.Base("tools") != nil {
		t.Error("found by a wrong name")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	good := example(t)
	for name, c := range map[string]struct{ from, to, want string }{
		"empty":                {good, "", "images.yaml:1: the file is empty"},
		"no yaml":              {good, "a: [", "images.yaml: yaml: line 1"},
		"version":              {"schemaVersion: 1", "schemaVersion: 2", `:1: the schemaVersion is "2", this program reads 1`},
		"version as text":      {"schemaVersion: 1", `schemaVersion: "1"`, ":1: the schemaVersion"},
		"no version":           {"schemaVersion: 1\n", "", "has no schemaVersion"},
		"no images":            {good, "schemaVersion: 1\n", "declares no images"},
		"unknown key":          {"bases:\n", "base:\n", `:2: the file has an unknown key "base"`},
		"unknown key, deep":    {"target:", "stage:", `images.tools has an unknown key "stage"`},
		"a tag":                {"node@" + digest, "node:22", `:6: bases.node.ref "registry.example/library/node:22" is not pinned by a digest`},
		"latest":               {"app@" + digest, "app:latest", "the tag of registry.example/team/app:latest can be moved"},
		"no tag":               {"app@" + digest, "app", "is not pinned by a digest"},
		"tag and digest":       {"node@", "node:22@", "has a tag and a digest"},
		"short digest":         {digest, "sha256:aa", "is not pinned by a digest"},
		"name twice":           {"  app: #", "  tools: #", `images has "tools" twice`},
		"bad name":             {"  app: #", "  App: #", `images has a name "App" that is not`},
		"unknown base":         {"BASE: debian", "BASE: debain", `images.tools.bases.BASE "debain" is not among the bases`},
		"argument twice":       {"RUFF_VERSION:", "BASE:", `has the build argument "BASE" twice`},
		"odd argument":         {"RUFF_VERSION:", "RUFF-VERSION:", `key "RUFF-VERSION" that is not the name of a build argument`},
		"ref and recipe":       {"recipe: bases/debian", "recipe: bases/debian\n    ref: registry.example/x@" + digest, "bases.debian needs either a ref or a recipe"},
		"ref and context":      {"context: tools", "context: tools\n    ref: registry.example/x@" + digest, "images.tools needs one of ref, context and executable"},
		"ref, dockerfile":      {"context: tools", "ref: registry.example/x@" + digest, "has the key ref, so nothing is built: dockerfile has no meaning"},
		"executable":           {"executable: self", "executable: /bin/quavon", `"/bin/quavon" is not self`},
		"executable, signed":   {"executable: self", "executable: self\n    signature: {key: x.pub}", "images.quavon is built here"},
		"artefact twice":       {"kind: erofs", "kind: ext4", "the kind ext4 is there twice"},
		"neither":              {"    context: tools\n", "", "images.tools needs one of ref, context and executable"},
		"signature of a build": {"target: final", "signature: {key: x.pub}", "images.tools is built here: it has no signature"},
		"half an identity":     {"identity: release@example", "key: x.pub", "neither by a key nor by an issuer, an identity and a trustedRoot"},
		"no trusted root":      {"      trustedRoot: keys/trusted_root.json\n", "", "neither by a key nor by an issuer, an identity and a trustedRoot"},
		"identity twice":       {"identity: release@example", "identity: a@example\n      identityPattern: .*@example", "has an identity and a pattern for it"},
		"no pattern":           {"identity: release@example", "identityPattern: '('", "missing closing"},
		"no platforms":         {"    platforms: [linux/amd64]\n", "", "images.tools names no platforms"},
		"platform":             {"[linux/amd64]", "[amd64]", `"amd64" is not linux/architecture`},
		"platform twice":       {"[linux/amd64]", "[linux/amd64, linux/amd64]", `"linux/amd64" is there twice`},
		"number for text":      {`"0.14.3"`, "0.14", "args.RUFF_VERSION is not a text; put it into quotes"},
		"kind":                 {"kind: erofs", "kind: squashfs", `"squashfs" is neither ext4 nor erofs`},
		"no kind":              {"- kind: erofs", "- free: 1GiB", "has no kind"},
		"free twice":           {"{journal:", "{free: 1GiB, journal:", "has free twice, also in options"},
		"leads out":            {"dockerfile: Dockerfile", "dockerfile: ../Dockerfile", "leads out of the context"},
		"alias":                {"recipe: bases/debian", "recipe: &x bases/debian", "anchors and aliases are not used here"},
		"yaml tag":             {"recipe: bases/debian", "recipe: !!str bases/debian", `the tag "!!str" is not used here`},
		"a list":               {good, "- 1\n", "the file is not a mapping"},
		"list for text":        {"context: tools", "context: [tools]", "images.tools.context is not a text"},
		"text for list":        {"[linux/amd64]", "linux/amd64", "images.tools.platforms is not a list"},
		"empty text":           {"context: tools", `context: ""`, `images.tools.context "" is empty`},
		"two documents":        {good, good + "---\n" + good, "something follows the document"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := strings.Replace(good, c.from, c.to, 1)
			if bad == good {
				t.Fatal("the case changes nothing")
			}
			_, err := declare.Parse("images.yaml", []byte(bad))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "images.yaml")
	if _, err := declare.Read(path); err == nil {
		t.Error("a missing file was read")
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#\n", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := declare.Read(path); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file without end: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example(f)))
	f.Add([]byte("a: &a [*a, *a]\n"))
	f.Add([]byte("{{{{{{{{{{{{{{{{{{{{{{{{{{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := declare.Parse("images.yaml", raw)
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), "images.yaml:"):
			t.Errorf("no name in %v", err)
		case err == nil && len(d.Images) == 0:
			t.Error("read, but no images")
		}
	})
}
