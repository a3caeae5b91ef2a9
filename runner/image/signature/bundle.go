package signature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	bundleVersion = 1
	// maxBundle bounds a stored bundle; a real one has 1 to 20 KiB.
	maxBundle = 4 << 20
)

// Bundle is a signature with all that is needed to check it, in a file. What it
// holds is worth nothing by itself: a lock says which key or root is trusted.
type Bundle struct {
	Version int `json:"version"`
	// Digest of the index, the manifest or the config that was signed.
	Digest v1.Hash `json:"digest"`
	// Key is the public key, if it was signed by one.
	Key string `json:"key,omitempty"`
	// TrustedRoot is the file that was used, if it was signed by an identity.
	TrustedRoot []byte `json:"trustedRoot,omitempty"`
	// Simple or Sigstore: the signature, in one of cosign's formats.
	Simple   *Simple `json:"simple,omitempty"`
	Sigstore []byte  `json:"sigstore,omitempty"`
}

// Simple is a signature of a "simple signing" payload, which names the digest.
type Simple struct {
	Payload []byte `json:"payload"`
	// Annotations as the registry has them: the signature, and the certificate,
	// its chain, log entry and time stamp.
	Annotations map[string]string `json:"annotations"`
}

// Encode is the file's one form, and its digest.
func (b *Bundle) Encode() (raw []byte, digest string, err error) {
	raw, err = json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, "", err
	}
	raw = append(raw, '\n')
	if len(raw) > maxBundle {
		return nil, "", fmt.Errorf("the bundle has %d bytes, more than %d", len(raw), maxBundle)
	}
	return raw, Digest(raw), nil
}

// ParseBundle reads a stored bundle that must have the digest.
func ParseBundle(raw []byte, digest string) (*Bundle, error) {
	if len(raw) > maxBundle {
		return nil, fmt.Errorf("the bundle has more than %d bytes", maxBundle)
	}
	if have := Digest(raw); have != digest {
		return nil, fmt.Errorf("the bundle has the digest %s, not %s", have, digest)
	}
	return parseBundle(raw)
}

func parseBundle(raw []byte) (*Bundle, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("the bundle is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	b := new(Bundle)
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("the bundle can't be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the bundle")
	}
	switch {
	case b.Version != bundleVersion:
		return nil, fmt.Errorf("the bundle has the version %d, this program reads %d", b.Version, bundleVersion)
	case b.Digest.Algorithm != "sha256":
		return nil, errors.New("the bundle names no sha256 digest")
	case (b.Simple == nil) == (b.Sigstore == nil):
		return nil, errors.New("the bundle doesn't hold one signature")
	}
	return b, nil
}
