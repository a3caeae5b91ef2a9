package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/host"
	"github.com/quavon/quavon/runner/fault"
)

// planted are secrets, each known from another place. key is base64 of 32 bytes.
var (
	password = "p@s+s/w<o>r&d \"q\" 17"
	key      = base64.StdEncoding.EncodeToString([]byte("\xff\xfe+/0123456789abcdefghijklmnop\xfb\xef"))
	planted  = map[string]string{
		"setting": password, "key": key, "env": "env-secret-4711", "acl": "acl-password-0815",
		"unknown token": "ghp_0123456789abcdefghij0123456789", "address": "address-password",
	}
)

// lab is a host whose programs, files and engine tell secrets.
type lab struct {
	host.Real

	dir string
}

func (l *lab) told() string {
	var b strings.Builder
	for name, s := range planted {
		if name == "address" {
			continue // which nothing but its place tells
		}
		asJSON, _ := json.Marshal(s)
		fmt.Fprintf(&b, "plain %s, asked for /x?q=%s, %s\n%s %s\n", s, url.QueryEscape(s), asJSON, hex.EncodeToString([]byte(s)),
			base64.StdEncoding.EncodeToString([]byte(s)))
	}
	raw, _ := base64.StdEncoding.DecodeString(key)
	fmt.Fprintf(&b, "key %x\n", raw)
	b.WriteString("redis://u:address-password@h:6379/0 and https://address-password@h/x\nAuthorization: Bearer address-password\n" +
		"GET /v1?access_token=address-password&x=1\n{\"password\": \"address-password\"}\n/home/ann/x, /root-of-all/keys\n" +
		"-----BEGIN PRIVATE KEY-----\naddress-password\n-----END PRIVATE KEY-----\n")
	return b.String()
}

func (l *lab) Run(context.Context, ...string) (string, error) { return l.told(), nil }

func (l *lab) Get(_ context.Context, _, p string) (host.Answer, error) {
	if strings.HasPrefix(p, "/containers/") {
		return host.Answer{Status: 200, Body: []byte(`[{"Names":["/quavon-valkey-1"]},{"Names":["/$(id)"]},{"Names":[]}]`)}, nil
	}
	return host.Answer{Status: 200, Body: []byte(l.told())}, nil
}

func newLab(t *testing.T) (Sources, *lab) {
	t.Helper()
	l := &lab{dir: t.TempDir()}
	for name, text := range map[string]string{
		".env":                       "API_TOKEN='env-secret-4711'\nQUAVON_SANDBOX_CONCURRENCY=4\n",
		"compose.yaml":               "services: {} # " + l.told(),
		"secrets/sandbox_signing":    key + "\n",
		"secrets/valkey_users.acl":   "user sandbox on >acl-password-0815 ~quavon-sandbox:* +@all\n",
		"secrets/unreadable/nothing": "",
	} {
		file := filepath.Join(l.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return Sources{Host: l, Runsc: "/runsc", Socket: "/s", EnvFile: filepath.Join(l.dir, ".env"), Project: "quavon", Since: "24h"}, l
}

// filled is a bundle of everything that tells secrets.
func filled(t *testing.T, mask func(Sources) *Mask) *Bundle {
	t.Helper()
	s, l := newLab(t)
	b := New(mask(s))
	b.Add("versions.txt", "", s.Versions(t.Context(), "v1"))
	for name, text := range s.Configuration() {
		b.Add(name, "", text)
	}
	for name, text := range s.Logs(t.Context()) {
		b.Add(name, "", text)
	}
	env, err := host.EnvListing(s.Host, s.EnvFile)
	if err != nil {
		t.Fatal(err)
	}
	b.Add("env.txt", "", env)
	f := doctor.Failed(l.told(), l.told(), l.told())
	f.Parts = []doctor.Part{{Subject: l.told(), Finding: doctor.Warned(l.told(), l.told(), l.told())}}
	c := &doctor.Check{Code: "QD901", Name: "x", Title: "x", Group: "x"}
	if err := b.AddReport(&doctor.Report{Results: []doctor.Result{{Check: c, Finding: f}}}, "v1"); err != nil {
		t.Fatal(err)
	}
	return b
}

// spelled are the forms in which the lab tells a secret.
func spelled(s string) []string {
	asJSON, _ := json.Marshal(s)
	return []string{
		s, url.QueryEscape(s), strings.Trim(string(asJSON), `"`), hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s)),
	}
}

// TestNoSecretLeaves also shows that each secret would be found if nothing hid it.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	masked := filled(t, func(s Sources) *Mask { return NewMask(append(s.Secrets(), password), []string{"/root-of-all"}) })
	open := filled(t, func(Sources) *Mask { return &Mask{values: strings.NewReplacer()} })
	control := ""
	for _, e := range open.Entries {
		control += string(e.Data)
	}
	if len(masked.Entries) != len(open.Entries) || len(masked.Entries) < 8 {
		t.Errorf("%d entries, %d without a mask", len(masked.Entries), len(open.Entries))
	}
	forbidden := []string{"/home/ann", "/root-of-all"}
	for name, secret := range planted {
		switch name {
		case "unknown token", "address":
			forbidden = append(forbidden, secret) // nobody knows their values: only what they look like hides them
		default:
			forbidden = append(forbidden, spelled(secret)...)
			if !strings.Contains(control, spelled(secret)[1]) {
				t.Errorf("the control has no %s", name)
			}
		}
	}
	for _, e := range masked.Entries {
		for _, f := range forbidden {
			if strings.Contains(string(e.Data), f) {
				t.Errorf("%s has %q", e.Name, f)
			}
		}
	}
	if !strings.Contains(open.List(), "container-quavon-valkey-1.log") || strings.Contains(open.List(), "$(id)") {
		t.Errorf("the list:\n%s", open.List())
	}
}

// TestLooks are secrets that only their form tells.
func TestLooks(t *testing.T) {
	t.Parallel()
	m := NewMask(nil, nil)
	for _, text := range []string{
		"redis://u:S3CRET@h", "redis://:S3C/RET@h", "https://S3CRET@h/x", "Authorization: Bearer S3CRET", "authorization: basic S3CRET",
		`"Authorization": "Bearer S3CRET"`, "/x?token=S3CRET", "?a=1&access_token=S3CRET&b", `{"password":"S3CRET"}`, "password: S3CRET",
		"api_key=S3CRET", "AGE-SECRET-KEY-1S3CRET", "eyJhbGciOiJI.S3CRET.S3CRET", "ghp_S3CRETS3CRETS3CRET", "sk-S3CRETS3CRETS3",
		"-----BEGIN RSA PRIVATE KEY-----\nS3CRET\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nS3CRET", "/home/S3CRET/x",
	} {
		if got := m.Hide(text); strings.Contains(got, "S3C") {
			t.Errorf("%q: %q", text, got)
		}
	}
	for _, text := range []string{"redis://host:6379/0", "user@host", "a token was refused", "mailto: x", "the secret's file is closed", "/home"} {
		if got := m.Hide(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func FuzzHide(f *testing.F) {
	f.Add("secret-value", "before ", " after")
	f.Add("a+b/c=d&e f", "?q=", "\n")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		line := strings.TrimSpace(secret)
		if len(line) < 8 || strings.ContainsAny(secret, "\n") || strings.Contains(hidden, line) {
			return
		}
		m := NewMask([]string{secret}, nil)
		for _, s := range spelled(line) {
			if got := m.Hide(before + s + after); strings.Count(got, s) > strings.Count(before+hidden+after, s) {
				t.Fatalf("%q in %q", s, got)
			}
		}
	})
}

func TestLongTextsKeepTheirEnd(t *testing.T) {
	t.Parallel()
	b := New(NewMask([]string{"secret-value"}, nil))
	b.Add("x", "", strings.Repeat("secret-value\n", maxEntry/8)+"the end\n")
	b.Add("empty", "", " \n")
	if len(b.Entries) != 1 || len(b.Entries[0].Data) > maxEntry+100 || !strings.HasSuffix(string(b.Entries[0].Data), "the end\n") ||
		strings.Contains(string(b.Entries[0].Data), "value") {
		t.Errorf("%d entries, %d bytes", len(b.Entries), len(b.Entries[0].Data))
	}
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	to, err := Recipients([]string{identity.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	b := New(NewMask(nil, nil))
	b.Add("a/b.txt", "about", "text")
	dir := t.TempDir()
	for name, to := range map[string][]age.Recipient{"x.tar.gz": nil, "x.tar.zst": nil, "x.tar.gz.age": to, "x.tar.zst.age": to} {
		file := filepath.Join(dir, name)
		if err := b.WriteFile(file, to, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		if got := unpack(t, name, data, identity); got != "text" {
			t.Errorf("%s has %q", name, got)
		}
		if err := b.WriteFile(file, to, time.Unix(1, 0)); err == nil || fault.Hint(err) == "" {
			t.Errorf("%s was overwritten: %v", name, err)
		}
		if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s changed", name)
		}
	}
	dangling := filepath.Join(dir, "link.tar.gz")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), dangling); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dangling, filepath.Join(dir, "x.zip"), filepath.Join(dir, "none", "x.tar.gz")} {
		if err := b.WriteFile(bad, nil, time.Unix(1, 0)); err == nil || fault.Hint(err) == "" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".quavon-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "elsewhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a link was followed")
	}
}

// unpack reads a bundle's entry a/b.txt.
func unpack(t *testing.T, name string, data []byte, identity age.Identity) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(data)
	var err error
	if strings.HasSuffix(name, AgeEnding) {
		if r, err = age.Decrypt(r, identity); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(name, ZstdEnding) {
		z, err := zstd.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	} else if r, err = gzip.NewReader(r); err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "quavon-support/a/b.txt" {
			text, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
}

func TestRecipients(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"AGE-SECRET-KEY-1QQQQ", "age1x", "", "ssh-ed25519 AAAA"} {
		if _, err := Recipients([]string{bad}); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
