package signature

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore/pkg/cryptoutils/goodkey"
	sig "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// Key is a public key.
type Key struct {
	// PEM is its one form.
	PEM string
	// Fingerprint is the sha256 of its DER form.
	Fingerprint string
	verifiers   []sig.Verifier
}

// maxKeys bounds a file of keys.
const maxKeys = 16

// ParseKeys reads the public keys of a PEM file: ECDSA, RSA or Ed25519.
func ParseKeys(raw []byte) ([]Key, error) {
	var keys []Key
	for len(bytes.TrimSpace(raw)) > 0 {
		block, rest := pem.Decode(raw)
		switch {
		case block == nil:
			return nil, errors.New("the file is not PEM all through")
		case block.Type != "PUBLIC KEY":
			return nil, fmt.Errorf("it holds a %q, not a PUBLIC KEY", block.Type)
		case len(keys) == maxKeys:
			return nil, fmt.Errorf("it holds more than %d keys", maxKeys)
		}
		k, err := parseKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		keys, raw = append(keys, k), rest
	}
	if len(keys) == 0 {
		return nil, errors.New("the file holds no key")
	}
	return keys, nil
}

func parseKey(der []byte) (Key, error) {
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return Key{}, err
	}
	return NewKey(public)
}

// NewKey is a public key of crypto.
func NewKey(public crypto.PublicKey) (Key, error) {
	if err := goodkey.ValidatePubKey(public); err != nil {
		return Key{}, fmt.Errorf("the key is too weak or of an unknown kind: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return Key{}, err
	}
	k := Key{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), Fingerprint: Digest(der)}
	k.verifiers, err = verifiers(public)
	return k, err
}

// verifiers are the two ways in which cosign signs with a key: with SHA-256
// whatever the curve, or with what the kind of key calls for.
func verifiers(public crypto.PublicKey) ([]sig.Verifier, error) {
	plain, err := sig.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	fitting, err := sig.LoadDefaultVerifier(public, options.WithED25519ph())
	if err != nil {
		return nil, err
	}
	return []sig.Verifier{plain, fitting}, nil
}
