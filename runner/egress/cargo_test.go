//go:build compat

package egress_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/quavon/quavon/runner/job"
)

// crate is a small Rust package.
func crate(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"thing-1.0.0/Cargo.toml": "[package]\nname = \"thing\"\nversion = \"1.0.0\"\nedition = \"2021\"\n", "thing-1.0.0/src/lib.rs": "",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("can't pack")
	}
	return b.Bytes()
}

const cargoScript = `mkdir -p src && touch src/lib.rs
printf '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nthing = { version = "1", registry = "mine" }\n' >Cargo.toml
export CARGO_HOME=/tmp/cargo CARGO_REGISTRIES_MINE_INDEX=sparse+https://ok.example/v1/index/ CARGO_NET_RETRY=0 CARGO_REGISTRIES_MINE_CREDENTIAL_PROVIDER=cargo:token
CARGO_REGISTRIES_MINE_TOKEN=$TOKEN cargo fetch && ls /tmp/cargo/registry/src/*/
rm -r /tmp/cargo; CARGO_REGISTRIES_MINE_TOKEN=other-token cargo fetch || echo not without`

// cargo sends its registry's token as the whole Authorization.
func TestCargo(t *testing.T) {
	t.Parallel()
	rust := output(t, "", "rustc", "--print", "sysroot")
	c := crate(t)
	docs := map[string][]byte{
		"/v1/index/config.json":  []byte(`{"dl":"https://ok.example/v1/crates/{crate}.crate","auth-required":true}`),
		"/v1/index/th/in/thing":  fmt.Appendf(nil, `{"name":"thing","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(c)),
		"/v1/crates/thing.crate": c,
	}
	mounts := []job.Mount{{Source: rust, Target: "/rust", Mode: job.MountReadOnly}}
	useRegistry(t, cargoScript, realValue, docs, mounts, "thing-1.0.0", "not without")
}
