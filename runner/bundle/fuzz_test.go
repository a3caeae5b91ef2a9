package bundle_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/quavon/quavon/runner/bundle"
)

// FuzzBundle: whatever a file holds, it is refused, or is byte for byte what writing its
// manifest gives.
func FuzzBundle(f *testing.F) {
	m, content := small()
	good, err := os.ReadFile(write(f, m, content, nil))
	if err != nil {
		f.Fatal(err)
	}
	signed, err := os.ReadFile(write(f, m, content, newSigner(f).sign))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(signed)
	f.Add(good[:len(good)-512])
	f.Add(raw(f, members(f, m, content)[:3]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "b.tar")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := bundle.Open(t.Context(), path, bundle.Trust{Unsigned: true})
		if err != nil {
			return
		}
		defer b.Close()
		if b.Verify(t.Context(), nil) != nil {
			return
		}
		var again bytes.Buffer
		if err := bundle.Encode(t.Context(), &again, b.Manifest, b, nil); err != nil || !b.Signed && !bytes.Equal(again.Bytes(), data) {
			t.Errorf("it is written otherwise: %v", err)
		}
	})
}

// FuzzManifest: a manifest that is read has one form, and names only what is below the
// directory that it is unpacked in.
func FuzzManifest(f *testing.F) {
	m, _ := small()
	good, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"mediaType":"` + bundle.MediaType + `","members":[{"name":"../x"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := bundle.ParseManifest(raw)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil || string(again) != string(raw) {
			t.Fatalf("it has another form: %v", err)
		}
		for _, one := range m.Members {
			if !filepath.IsLocal(one.Name) || m.Member(one.Name).Name != one.Name {
				t.Errorf("member %q", one.Name)
			}
		}
	})
}
