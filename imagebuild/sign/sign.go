// Package sign signs images with a cosign key, and puts signatures where cosign
// finds them.
package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	_ "crypto/sha256" // what crypto.SHA256 stands for
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/signature"
)

const (
	// EnvPassword holds the password of a key, as for cosign itself.
	EnvPassword = "COSIGN_PASSWORD"
	maxKey      = 64 << 10
)

// Signer signs with one private key.
type Signer struct {
	Key     signature.Key
	private crypto.Signer
}

// Options of Open.
type Options struct {
	// PasswordFile holds the key's password in its first line; "" takes Password.
	PasswordFile string
	// Password is what the environment has; see EnvPassword.
	Password string
}

// Open reads a private key as `cosign generate-key-pair` makes it. The password
// is in no error.
func Open(path string, o Options) (*Signer, error) {
	s, err := open(path, o)
	if err != nil {
		return nil, fault.Wrap(err, "can't sign with "+path,
			"name a private key of `cosign generate-key-pair`, and put its password in "+EnvPassword+" or a file")
	}
	return s, nil
}

func open(path string, o Options) (*Signer, error) {
	raw, err := bounded.ReadFile(path, maxKey)
	if err != nil {
		return nil, err
	}
	password := []byte(o.Password)
	if o.PasswordFile != "" {
		line, err := bounded.ReadFile(o.PasswordFile, maxKey)
		if err != nil {
			return nil, err
		}
		line, _, _ = bytes.Cut(line, []byte("\n"))
		password = bytes.TrimSuffix(line, []byte("\r"))
	}
	private, err := decrypt(raw, password)
	if err != nil {
		return nil, err
	}
	s := &Signer{private: private}
	s.Key, err = signature.NewKey(private.Public())
	return s, err
}

// decrypt is cosign's LoadPrivateKey, which hands out no key that could sign
// without randomness.
func decrypt(raw, password []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != cosign.SigstorePrivateKeyPemType && block.Type != cosign.CosignPrivateKeyPemType {
		return nil, errors.New("it holds no encrypted private key")
	}
	der, err := encrypted.Decrypt(block.Bytes, password)
	if err != nil {
		return nil, fmt.Errorf("the password is wrong or missing (%w)", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of the type %T can't sign", private)
	}
	return signer, nil
}

// Sign signs the digest of an index, a manifest or, for an image that has neither,
// a config. The same digest always gets the same signature. Name is what the
// signature calls the image: a repository, or anything; verification doesn't
// look at it.
func (s *Signer) Sign(ctx context.Context, name string, digest v1.Hash) (*signature.Bundle, error) {
	claim, err := claim(name, digest)
	if err != nil {
		return nil, err
	}
	how := options(s.private.Public())
	h := how.HashFunc().New()
	h.Write(claim)
	// Without randomness: nonces are derived from key and message, RFC 6979.
	signed, err := s.private.Sign(nil, h.Sum(nil), how)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", digest, err)
	}
	b := &signature.Bundle{Digest: digest, Simple: &signature.Simple{
		Payload:     claim,
		Annotations: map[string]string{static.SignatureAnnotationKey: base64.StdEncoding.EncodeToString(signed)},
	}}
	// Checked at once, as it will be later.
	policy := &signature.Policy{Keys: []signature.Key{s.Key}}
	b, _, err = policy.Find(ctx, []*signature.Bundle{b})
	return b, err
}

// options are cosign's choice for a kind of key.
func options(public crypto.PublicKey) crypto.SignerOpts {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return &ed25519.Options{Hash: crypto.SHA512}
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P384():
			return crypto.SHA384
		case elliptic.P521():
			return crypto.SHA512
		}
	}
	return crypto.SHA256
}

// claim is what is signed: the statement that cosign makes of an image.
func claim(repository string, digest v1.Hash) ([]byte, error) {
	ref, err := name.NewDigest(repository + "@" + digest.String())
	if err != nil {
		return nil, fmt.Errorf("sign %s@%s: %w", repository, digest, err)
	}
	// As it was given: an image that is in no registry is called by no registry's name.
	return payload.Cosign{Image: ref, ClaimedIdentity: repository}.MarshalJSON()
}
