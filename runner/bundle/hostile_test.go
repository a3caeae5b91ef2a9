package bundle_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/image/signature"
)

// raw puts a file together from members as an attacker has them, without any check.
func raw(t testing.TB, members ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range members {
		text := h.PAXRecords["text"]
		delete(h.PAXRecords, "text")
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if strings.HasPrefix(h.Name, "bin/") {
				h.Mode = 0o755
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil && h.Typeflag == tar.TypeReg {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, text string) *tar.Header {
	return &tar.Header{Name: name, PAXRecords: map[string]string{"text": text}, Format: tar.FormatUSTAR}
}

// members are a bundle's, in order.
func members(t testing.TB, m *bundle.Manifest, f files) []*tar.Header {
	t.Helper()
	manifest, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	all := []*tar.Header{file(bundle.ManifestName, string(manifest))}
	for _, one := range m.Members {
		all = append(all, file(one.Name, f[one.Name]))
	}
	return all
}

// read does all that an installation does with a bundle.
func read(ctx context.Context, path string, trust bundle.Trust) error {
	b, err := bundle.Open(ctx, path, trust)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Verify(ctx, nil)
}

func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.tar")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(t.Context(), path, bundle.Trust{Unsigned: true}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, not %q", err, want)
	}
}

// TestHostileMembers: a file that is anything but what its manifest says.
func TestHostileMembers(t *testing.T) {
	t.Parallel()
	insert := func(at int, h *tar.Header) func([]*tar.Header) []*tar.Header {
		return func(all []*tar.Header) []*tar.Header {
			return append(append(append([]*tar.Header{}, all[:at]...), h), all[at:]...)
		}
	}
	replace := func(at int, h *tar.Header) func([]*tar.Header) []*tar.Header {
		return func(all []*tar.Header) []*tar.Header { all[at] = h; return all }
	}
	for name, c := range map[string]struct {
		change func([]*tar.Header) []*tar.Header
		want   string
	}{
		"one more":           {insert(3, file("templates/x", "x")), "something was added"},
		"one more at end":    {insert(11, file("templates/x", "x")), "something was added"},
		"twice":              {insert(2, file("bin/linux-amd64/gvisor-bin/helper", "h")), "something was added"},
		"one less":           {func(all []*tar.Header) []*tar.Header { return append(all[:2], all[3:]...) }, "cut short"},
		"manifest twice":     {insert(0, file(bundle.ManifestName, "{}")), "the type"},
		"manifest second":    {func(all []*tar.Header) []*tar.Header { all[0], all[1] = all[1], all[0]; return all }, "no bundle"},
		"symbolic link":      {replace(2, &tar.Header{Name: "bin/linux-amd64/quavon", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), "cut short"},
		"hard link":          {replace(3, &tar.Header{Name: "bin/linux-amd64/quavon-guest", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), "something else"},
		"device":             {replace(3, &tar.Header{Name: "bin/linux-amd64/quavon-guest", Typeflag: tar.TypeChar}), "something else"},
		"directory":          {replace(3, &tar.Header{Name: "bin/linux-amd64/quavon-guest/", Typeflag: tar.TypeDir}), "something else"},
		"other name":         {replace(2, file("bin/linux-amd64/q.avon", "q")), "something else"},
		"absolute name":      {replace(2, file("/bin/linux-amd64/quavon", "q")), "something else"},
		"other order":        {func(all []*tar.Header) []*tar.Header { all[1], all[2] = all[2], all[1]; return all }, "something else"},
		"other content":      {replace(2, file("bin/linux-amd64/quavon", "Q")), "bin/linux-amd64/quavon is damaged: its sha256"},
		"setuid":             {replace(3, &tar.Header{Name: "bin/linux-amd64/quavon-guest", Mode: 0o4755, Typeflag: tar.TypeReg}), "something else"},
		"another owner":      {replace(3, &tar.Header{Name: "bin/linux-amd64/quavon-guest", Mode: 0o755, Typeflag: tar.TypeReg, Uid: 1}), "something else"},
		"extended header":    {replace(3, &tar.Header{Name: "bin/linux-amd64/quavon-guest", Typeflag: tar.TypeReg, Mode: 0o755, PAXRecords: map[string]string{"VENDOR.x": "x"}, Format: tar.FormatPAX}), "something was added"},
		"signature of air":   {insert(1, file(bundle.SignatureName, "")), ""},
		"signature too long": {insert(1, file(bundle.SignatureName, strings.Repeat("x", 64<<10+1))), "something was added"},
		"nothing":            {func([]*tar.Header) []*tar.Header { return nil }, "no bundle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, f := small()
			data := raw(t, c.change(members(t, m, f))...)
			if name == "signature of air" { // nobody asked for one
				path := filepath.Join(t.TempDir(), "b.tar")
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := read(t.Context(), path, bundle.Trust{Unsigned: true}); err != nil {
					t.Error(err)
				}
				return
			}
			if len(data) < 512 {
				t.Fatal("no file")
			}
			refused(t, data, c.want)
		})
	}
}

// TestHostileManifest: a manifest that asks for what no bundle has.
func TestHostileManifest(t *testing.T) {
	t.Parallel()
	add := func(name string) func(*bundle.Manifest, files) {
		return func(m *bundle.Manifest, f files) { f[name] = "x"; f.into(m) }
	}
	for name, c := range map[string]struct {
		change func(*bundle.Manifest, files)
		want   string
	}{
		"out":              {add("../x"), "none that a member can have"},
		"out below":        {add("bin/linux-amd64/../../x"), "none that a member can have"},
		"absolute":         {add("/etc/passwd"), "none that a member can have"},
		"dot":              {add("bin/linux-amd64/."), "none that a member can have"},
		"no name":          {add(""), "none that a member can have"},
		"line feed":        {add("templates/x\n"), "none that a member can have"},
		"elsewhere":        {add("secrets/key"), "none that a member can have"},
		"long":             {add("templates/" + strings.Repeat("x", 100)), "none that a member can have"},
		"other platform":   {add("bin/linux-arm64/quavon"), "a platform that the bundle isn't for"},
		"blob's name":      {add(bundle.Blob(strings.Repeat("0", 64))), "has the sha256"},
		"negative":         {func(m *bundle.Manifest, _ files) { m.Members[0].Size = -1 }, "has the size -1"},
		"huge":             {func(m *bundle.Manifest, _ files) { m.Members[0].Size = 8 << 30 }, "has the size"},
		"huge together":    {huge, "more than"},
		"not hexadecimal":  {func(m *bundle.Manifest, _ files) { m.Members[0].SHA256 = "x" }, "has the sha256"},
		"twice":            {func(m *bundle.Manifest, _ files) { m.Members = append(m.Members[:1], m.Members...) }, "twice"},
		"out of order":     {func(m *bundle.Manifest, _ files) { m.Members[0], m.Members[1] = m.Members[1], m.Members[0] }, "out of order"},
		"no quavon":        {func(m *bundle.Manifest, f files) { delete(f, "bin/linux-amd64/quavon"); f.into(m) }, "quavon is missing"},
		"no lock":          {func(m *bundle.Manifest, f files) { delete(f, bundle.LockName); f.into(m) }, "images.lock.json is missing"},
		"no platform":      {func(m *bundle.Manifest, _ files) { m.Platforms = nil }, "0 platforms"},
		"odd platform":     {func(m *bundle.Manifest, _ files) { m.Platforms = []string{"linux/../amd64"} }, "the platform"},
		"image missing":    {func(m *bundle.Manifest, _ files) { m.Images = nil }, "the lock's image box linux/amd64 is missing"},
		"other image":      {func(m *bundle.Manifest, _ files) { m.Images[0].Name = "other" }, "isn't the lock's"},
		"image's blob":     {func(m *bundle.Manifest, _ files) { m.Images[0].Digest = "sha256:" + strings.Repeat("0", 64) }, "content of the image"},
		"image's config":   {func(m *bundle.Manifest, _ files) { m.Images[0].Config = m.Images[0].Digest }, "isn't the lock's"},
		"image's platform": {func(m *bundle.Manifest, _ files) { m.Images[0].Platform = "linux/arm64" }, "is for"},
		"type":             {func(m *bundle.Manifest, _ files) { m.MediaType = "application/json" }, "has the type"},
		"version":          {func(m *bundle.Manifest, _ files) { m.Version = "\x1b[2J" }, "the version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, f := small()
			c.change(m, f)
			all := members(t, m, f)
			for _, h := range all[1:] {
				h.Name = "x" // a tar's writer has its own opinion on names
			}
			refused(t, raw(t, all...), c.want)
			if err := bundle.Write(t.Context(), filepath.Join(t.TempDir(), "b"), m, f, nil); err == nil && !strings.HasPrefix(c.want, "isn't") && !strings.HasPrefix(c.want, "the lock's") && c.want != "has the type" {
				t.Error("it was written")
			}
		})
	}
}

func huge(m *bundle.Manifest, _ files) {
	for i := range 40 {
		m.Members = append(m.Members, bundle.Member{Name: "templates/x" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Size: 8<<30 - 1, SHA256: sum("")})
	}
	m.Sort()
}

// TestOneForm: a manifest that another reader could read differently.
func TestOneForm(t *testing.T) {
	t.Parallel()
	m, _ := small()
	good, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.ParseManifest(good); err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for name, bad := range map[string]string{
		"key twice": strings.Replace(text, `"version": "v1",`, `"version": "v0", "version": "v1",`, 1),
		"case":      strings.Replace(text, `"version"`, `"Version"`, 1),
		"unknown":   strings.Replace(text, `"version"`, `"more": 1, "version"`, 1),
		"space":     text + " ",
		"cut":       text[:len(text)-2],
		"two":       text + text,
		"escape":    strings.Replace(text, "v1", `\u0076\u0031`, 1),
		"null":      strings.Replace(text, `"images": [`, `"images": null, "x": [`, 1),
		"empty":     "",
		"other":     "[]",
	} {
		if _, err := bundle.ParseManifest([]byte(bad)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if json.Valid([]byte(text[:len(text)-3])) {
		t.Error("the cut is none")
	}
}

// TestDamage changes, cuts and lengthens a bundle at every byte.
func TestDamage(t *testing.T) {
	t.Parallel()
	m, f := small()
	s := newSigner(t)
	good, err := os.ReadFile(write(t, m, f, s.sign))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "b.tar")
	try := func(what string, at int, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := read(t.Context(), path, s.trust()); err == nil {
			t.Errorf("%s at %d was read", what, at)
		}
	}
	for at := 0; at < len(good); at += 13 {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		try("a change", at, bad)
	}
	for at := 0; at < len(good); at += 509 {
		try("a cut", at, good[:at])
	}
	try("one byte less", len(good), good[:len(good)-1])
	try("more", len(good), append(bytes.Clone(good), make([]byte, 512)...))
	try("two", len(good), append(bytes.Clone(good), good...))
}

// TestTrust: who may have signed.
func TestTrust(t *testing.T) {
	t.Parallel()
	m, f := small()
	us, them := newSigner(t), newSigner(t)
	image := *us
	image.name = "quavon/box"
	other := func(ctx context.Context, _ v1.Hash) (*signature.Bundle, error) {
		return us.sign(ctx, v1.Hash{Algorithm: "sha256", Hex: sum("something else")})
	}
	for name, c := range map[string]struct {
		sign  bundle.Sign
		trust bundle.Trust
		want  string
	}{
		"signed":                  {us.sign, us.trust(), ""},
		"one of two keys":         {us.sign, bundle.Trust{Keys: []string{them.key.Fingerprint, us.key.Fingerprint}}, ""},
		"unsigned, accepted":      {nil, bundle.Trust{Unsigned: true}, ""},
		"signed, any accepted":    {them.sign, bundle.Trust{Unsigned: true}, ""},
		"unsigned":                {nil, us.trust(), "nobody has signed"},
		"unsigned, nothing asked": {nil, bundle.Trust{}, "nobody has signed"},
		"unsigned, key and any":   {nil, bundle.Trust{Keys: us.trust().Keys, Unsigned: true}, "nobody has signed"},
		"signed, nothing asked":   {us.sign, bundle.Trust{}, "it isn't said by whom it must be (it has the key " + us.key.Fingerprint + ")"},
		"another key":             {them.sign, us.trust(), "another key"},
		"another digest":          {other, us.trust(), "which isn't this image"},
		"signature of an image":   {image.sign, us.trust(), `made for "quavon/box"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := read(t.Context(), write(t, m, f, c.sign), c.trust)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, bundle.ErrUntrusted)):
				t.Errorf("%v, not %q", err, c.want)
			}
		})
	}
}

// TestUntrustedFirst: nothing of a bundle that nobody known has signed is looked at.
func TestUntrustedFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.tar")
	if err := os.WriteFile(path, raw(t, file(bundle.ManifestName, "not even JSON")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(t.Context(), path, newSigner(t).trust()); !errors.Is(err, bundle.ErrUntrusted) {
		t.Error(err)
	}
}
