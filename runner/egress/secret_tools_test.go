package egress_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/job"
)

// packages are what a registry gives to who has a credential.
func packages(t *testing.T) map[string][]byte {
	t.Helper()
	deb := []byte("not a package, but it has its digest")
	list := fmt.Appendf(nil, "Package: thing\nVersion: 1\nArchitecture: all\nMaintainer: x\nFilename: apt/thing.deb\nSize: %d\nSHA256: %x\nDescription: x\n\n",
		len(deb), sha256.Sum256(deb))
	return map[string][]byte{
		"/v1/simple/thing/":                    []byte(`<a href="../../files/thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>`),
		"/v1/files/thing-1.0-py3-none-any.whl": wheel(t),
		"/v1/apt/Release":                      fmt.Appendf(nil, "Suite: x\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n %x %d Packages\n", sha256.Sum256(list), len(list)),
		"/v1/apt/Packages":                     list,
		"/v1/apt/thing.deb":                    deb,
	}
}

// wheel is a small Python package.
func wheel(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"thing.py":                     "print('a thing')\n",
		"thing-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
		"thing-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"thing-1.0.dist-info/RECORD":   "thing.py,,\nthing-1.0.dist-info/METADATA,,\nthing-1.0.dist-info/WHEEL,,\nthing-1.0.dist-info/RECORD,,\n",
	} {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Basic is what pip makes of a user and a password in a URL or of .netrc, and apt of
// auth.conf.
var basicWant = "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+realValue))

const pipScript = `set -e
python3 -m venv v
export PIP_DISABLE_PIP_VERSION_CHECK=1
v/bin/pip install -q --no-deps --retries 0 --index-url "https://me:$TOKEN@ok.example/v1/simple/" thing; v/bin/python -c 'import thing'
v/bin/pip uninstall -q -y thing
echo "machine ok.example login me password $TOKEN" >~/.netrc
v/bin/pip install -q --no-cache-dir --no-deps --retries 0 --index-url https://ok.example/v1/simple/ thing; v/bin/python -c 'import thing'
rm ~/.netrc; v/bin/pip download -q --no-cache-dir --no-deps --retries 0 --no-input --index-url https://ok.example/v1/simple/ thing 2>&1 | tail -1`

const aptScript = `set -e
mkdir -p /tmp/apt/etc/sources.list.d /tmp/apt/etc/preferences.d /tmp/apt/etc/apt.conf.d /tmp/apt/etc/auth.conf.d /tmp/apt/etc/trusted.gpg.d /tmp/apt/lists/partial /tmp/apt/cache/archives/partial
echo "deb [trusted=yes] https://ok.example/v1/ apt/" >/tmp/apt/etc/sources.list
echo "machine https://ok.example/v1/apt login me password $TOKEN" >/tmp/apt/etc/auth.conf
touch /tmp/apt/status
O="-o Dir::Etc=/tmp/apt/etc -o Dir::State::Lists=/tmp/apt/lists -o Dir::State::Status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache -o Debug::NoLocking=1 -o Acquire::Languages=none"
cd /tmp/apt
apt-get $O update -qq
apt-get $O download -qq thing
cat thing*.deb
rm thing*.deb etc/auth.conf
apt-get $O download -qq thing 2>&1 | grep -o '401 *Unauthorized' || true`

// pip and apt use a secret in their own ways, and are refused by the registry without.
func TestSecretTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"pip": {pipScript, []string{"a thing\na thing\n", "No matching distribution"}},
		"apt": {aptScript, []string{"not a package, but it has its digest", "401"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			useRegistry(t, c.script, basicWant, packages(t), nil, c.want...)
		})
	}
}

// useRegistry runs a script with the secret of a registry that wants one Authorization.
func useRegistry(t *testing.T, script, authorization string, docs map[string][]byte, mounts []job.Mount, want ...string) {
	t.Helper()
	w := newWorld(t)
	v := newVault(t, w)
	v.docs, v.want = docs, authorization
	s := withSecret(t.TempDir(), script)
	s.Mounts = append(s.Mounts, mounts...)
	s.Steps[0].Env = []string{"PATH=/rust/bin:/usr/local/bin:/usr/bin:/bin"}
	var logged bytes.Buffer
	_, out := runWith(t, w, v, s, &logged)
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("%q isn't printed", text)
		}
	}
	seen := strings.Join(v.take(), "\n")
	if strings.Contains(out+logged.String(), realValue) || strings.Contains(seen, "quavon_secret_") {
		t.Errorf("output or log have the value, or the server has a placeholder: %s", seen)
	}
	t.Log(out)
}
