// Package sign signs images with a cosign key, and puts signatures where cosign
// finds them.
package sign

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	sig "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"github.com/sigstore/sigstore/pkg/signature/payload"

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
	Key    signature.Key
	signer sig.Signer
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
	raw, err := readAll(path)
	if err != nil {
		return nil, err
	}
	password := []byte(o.Password)
	if o.PasswordFile != "" {
		line, err := readAll(o.PasswordFile)
		if err != nil {
			return nil, err
		}
		line, _, _ = bytes.Cut(line, []byte("\n"))
		password = bytes.TrimSuffix(line, []byte("\r"))
	}
	private, err := cosign.LoadPrivateKey(raw, password, nil)
	if err != nil {
		return nil, explain(err)
	}
	public, err := private.PublicKey()
	if err != nil {
		return nil, err
	}
	s := &Signer{signer: private}
	s.Key, err = signature.NewKey(public)
	return s, err
}

// explain names the usual mistake.
func explain(err error) error {
	if strings.HasPrefix(err.Error(), "decrypt: ") {
		return fmt.Errorf("the password is wrong or missing (%w)", err)
	}
	return err
}

// readAll reads a small file.
func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err == nil && len(raw) > maxKey {
		err = fmt.Errorf("%s has more than %d bytes", path, maxKey)
	}
	return raw, err
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
	// No source of randomness: nonces are derived from key and message, RFC 6979.
	signed, err := s.signer.SignMessage(bytes.NewReader(claim), options.WithContext(ctx), options.WithRand(nil))
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

// claim is what is signed: the statement that cosign makes of an image.
func claim(repository string, digest v1.Hash) ([]byte, error) {
	ref, err := name.NewDigest(repository + "@" + digest.String())
	if err != nil {
		return nil, fmt.Errorf("sign %s@%s: %w", repository, digest, err)
	}
	return payload.Cosign{Image: ref}.MarshalJSON()
}
