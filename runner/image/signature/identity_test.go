package signature_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/signature"
)

const (
	who    = "release@example"
	issuer = "https://accounts.example"
)

func hash(t testing.TB, c string) v1.Hash {
	t.Helper()
	h, err := v1.NewHash("sha256:" + strings.Repeat(c, 64))
	must(t, err)
	return h
}

func claim(d v1.Hash) []byte {
	return []byte(`{"critical":{"identity":{"docker-reference":"registry.example/app"},"image":{"docker-manifest-digest":"` +
		d.String() + `"},"type":"cosign container image signature"},"optional":null}`)
}

func statement(d v1.Hash, predicate string) []byte {
	return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + d.Hex +
		`"}}],"predicateType":"` + predicate + `","predicate":{}}`)
}

const cosignPredicate = "https://sigstore.dev/cosign/sign/v1"

func TestByIdentity(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	app, soon := hash(t, "a"), soon()
	good := signature.Policy{Issuer: issuer, Identity: who, TrustedRoot: a.root(false)}
	formats := map[string]func(authority, v1.Hash, time.Time) *signature.Bundle{
		"simple": func(a authority, d v1.Hash, at time.Time) *signature.Bundle {
			return a.simple(who, issuer, claim(d), at)
		},
		"sigstore": func(a authority, d v1.Hash, at time.Time) *signature.Bundle {
			return a.sigstore(who, issuer, statement(d, cosignPredicate), at)
		},
	}
	for name, c := range map[string]struct {
		policy func(p *signature.Policy)
		by     authority
		digest v1.Hash
		at     time.Time
		want   string
	}{
		"good":                {nil, a, app, soon, ""},
		"by pattern":          {func(p *signature.Policy) { p.Identity, p.IdentityPattern = "", "release@.*" }, a, app, soon, ""},
		"half a pattern":      {func(p *signature.Policy) { p.Identity, p.IdentityPattern = "", "release" }, a, app, soon, "identit"},
		"either half":         {func(p *signature.Policy) { p.Identity, p.IdentityPattern = "", "x|release" }, a, app, soon, "identit"},
		"another identity":    {func(p *signature.Policy) { p.Identity = "mallory@example" }, a, app, soon, "identit"},
		"another issuer":      {func(p *signature.Policy) { p.Issuer = "https://other.example" }, a, app, soon, "issuer"},
		"another authority":   {nil, other, app, soon, "log"},
		"another digest":      {nil, a, hash(t, "b"), soon, "digest"},
		"signed too late":     {nil, a, app, time.Now().Add(30 * time.Minute), "certificate"},
		"no receipt":          {func(p *signature.Policy) { p.TrustedRoot = a.root(true) }, a, app, soon, "sct|signed certificate timestamp"},
		"a root of something": {func(p *signature.Policy) { p.TrustedRoot = []byte("{}") }, a, app, soon, "trusted root"},
	} {
		for format, sign := range formats {
			t.Run(name+", "+format, func(t *testing.T) {
				t.Parallel()
				p := good
				if c.policy != nil {
					c.policy(&p)
				}
				b := sign(c.by, c.digest, c.at)
				b.Digest = app
				met, err := b.Verify(t.Context(), &p)
				checkErr(t, err, c.want)
				if err == nil && (met.Identity != who || met.Issuer != issuer) {
					t.Errorf("met by %+v", met)
				}
			})
		}
	}
}

func soon() time.Time { return time.Now().Add(5 * time.Minute) }

// checkErr: want is what the error says, in small letters; "a|b" is either.
func checkErr(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatal(err)
	case want != "" && err == nil:
		t.Fatal("accepted")
	case want != "" && !slices.ContainsFunc(strings.Split(want, "|"), func(one string) bool {
		return strings.Contains(strings.ToLower(err.Error()), one)
	}):
		t.Errorf("%q isn't in %v", want, err)
	}
}

// TestOtherStatements: a list of an image's faults, signed by the same identity,
// names the image as well.
func TestOtherStatements(t *testing.T) {
	t.Parallel()
	a, app := newAuthority(t), hash(t, "a")
	p := &signature.Policy{Issuer: issuer, Identity: who, TrustedRoot: a.root(false)}
	b := a.sigstore(who, issuer, statement(app, "https://cosign.sigstore.dev/attestation/vuln/v1"), time.Now().Add(5*time.Minute))
	b.Digest = app
	_, err := b.Verify(t.Context(), p)
	checkErr(t, err, "attestation of something else")

	b = a.simple(who, issuer, []byte(strings.ReplaceAll(string(claim(app)), "cosign container", "some other")), time.Now().Add(5*time.Minute))
	b.Digest = app
	_, err = b.Verify(t.Context(), p)
	checkErr(t, err, "not an image signature")
}

// TestNoLog: without an entry in the log, an ended certificate could sign on.
func TestNoLog(t *testing.T) {
	t.Parallel()
	a, app := newAuthority(t), hash(t, "a")
	b := a.simple(who, issuer, claim(app), time.Now().Add(5*time.Minute))
	b.Digest = app
	delete(b.Simple.Annotations, "dev.sigstore.cosign/bundle")
	_, err := b.Verify(t.Context(), &signature.Policy{Issuer: issuer, Identity: who, TrustedRoot: a.root(false)})
	checkErr(t, err, "offline verification failed")
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	root := []byte("{}")
	for name, p := range map[string]signature.Policy{
		"nothing":          {},
		"only an issuer":   {Issuer: issuer, TrustedRoot: root},
		"only an identity": {Identity: who, TrustedRoot: root},
		"both":             {Issuer: issuer, Identity: who, IdentityPattern: ".*", TrustedRoot: root},
		"no root":          {Issuer: issuer, Identity: who},
		"key and identity": {Issuer: issuer, Identity: who, TrustedRoot: root, Keys: []signature.Key{{}}},
		"no pattern":       {Issuer: issuer, IdentityPattern: "(", TrustedRoot: root},
	} {
		if err := p.Check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
