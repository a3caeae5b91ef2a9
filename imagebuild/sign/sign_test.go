package sign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"

	"github.com/quavon/quavon/imagebuild/sign"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

const password = "correct horse"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newKey is a file with a private key as cosign makes it.
func newKey(t testing.TB) string {
	t.Helper()
	pair, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte(password), nil })
	must(t, err)
	path := filepath.Join(t.TempDir(), "cosign.key")
	must(t, os.WriteFile(path, pair.PrivateBytes, 0o600))
	return path
}

func TestOpen(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	dir := t.TempDir()
	file, text := filepath.Join(dir, "password"), filepath.Join(dir, "text")
	must(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	must(t, os.WriteFile(text, []byte("no key"), 0o600))
	for name, c := range map[string]struct {
		key  string
		o    sign.Options
		want string
	}{
		"by environment":    {key, sign.Options{Password: password}, ""},
		"by file":           {key, sign.Options{PasswordFile: file, Password: "wrong"}, ""},
		"wrong":             {key, sign.Options{Password: "secret-and-wrong"}, "the password is wrong or missing"},
		"none":              {key, sign.Options{}, "the password is wrong or missing"},
		"no such key":       {filepath.Join(dir, "none"), sign.Options{}, "no such file"},
		"no such password":  {key, sign.Options{PasswordFile: filepath.Join(dir, "none")}, "no such file"},
		"not a private key": {text, sign.Options{}, "no encrypted private key"},
	} {
		_, err := sign.Open(c.key, c.o)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignAndPush(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	one, err := sign.Open(key, sign.Options{Password: password})
	must(t, err)
	other, err := sign.Open(newKey(t), sign.Options{Password: password})
	must(t, err)
	repo := it.Registry(t)
	ref := it.Push(t, repo, it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("a", "b")))))
	digest, err := v1.NewHash(ref[strings.Index(ref, "@")+1:])
	must(t, err)

	b, err := one.Sign(t.Context(), repo.Name(), digest)
	must(t, err)
	again, err := one.Sign(t.Context(), repo.Name(), digest)
	must(t, err)
	if d := cmp.Diff(b, again); d != "" {
		t.Errorf("the second signature differs:\n%s", d)
	}
	second, err := other.Sign(t.Context(), repo.Name(), digest)
	must(t, err)
	for _, p := range []*signature.Bundle{b, second, b} {
		must(t, sign.Push(t.Context(), ref, p, source.RegistryOptions{}))
	}
	found, err := signature.Registry(t.Context(), ref, source.RegistryOptions{})
	must(t, err)
	if len(found) != 2 {
		t.Fatalf("found %d signatures, not 2", len(found))
	}
	for _, k := range []signature.Key{one.Key, other.Key} {
		got, met, err := (&signature.Policy{Keys: []signature.Key{k}}).Find(t.Context(), found)
		must(t, err)
		if met.Key != k.Fingerprint || got.Key != k.PEM {
			t.Errorf("met by %v", met)
		}
	}
	// What comes back from the registry is what was stored.
	got, _, err := (&signature.Policy{Keys: []signature.Key{one.Key}}).Find(t.Context(), found)
	must(t, err)
	if d := cmp.Diff(b, got); d != "" {
		t.Errorf("another bundle from the registry:\n%s", d)
	}
	h, _, err := v1.SHA256(strings.NewReader("x"))
	must(t, err)
	elsewhere, err := one.Sign(t.Context(), repo.Name(), h)
	must(t, err)
	if err := sign.Push(t.Context(), ref, elsewhere, source.RegistryOptions{}); err == nil {
		t.Error("pushed another image's signature")
	}
}
