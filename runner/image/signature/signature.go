// Package signature says whether an image was signed by whom its policy names:
// the owner of a key, or an identity that a certificate authority vouched for. It
// reads what cosign leaves in a registry or an OCI layout, in both its formats,
// and keeps it as a bundle that can be checked again without any network.
//
// Everything that comes from a registry is hostile here: it is bounded when it is
// read, and cosign's verification of it can't take the program down.
package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
)

// Policy is who must have signed an image: one of the keys, or the identity.
type Policy struct {
	Keys []Key
	// Issuer is the URL of who vouched for the identity.
	Issuer string
	// Identity is an address or a URL, as it is in the certificate.
	Identity string
	// IdentityPattern matches all of an identity instead, in RE2's syntax.
	IdentityPattern string
	// TrustedRoot is the file that certificates and log entries are checked with:
	// trusted_root.json as sigstore has it.
	TrustedRoot []byte
}

// Met is who signed: a key's fingerprint, or an issuer and an identity.
type Met struct {
	Key              string
	Issuer, Identity string
}

// String is for people.
func (m Met) String() string {
	if m.Key != "" {
		return "the key " + m.Key
	}
	return m.Identity + " (" + m.Issuer + ")"
}

// Check refuses a policy that would let anybody in.
func (p *Policy) Check() error {
	byKey, byIdentity := len(p.Keys) > 0, p.Issuer != "" || p.Identity != "" || p.IdentityPattern != ""
	switch {
	case byKey == byIdentity:
		return errors.New("a policy names keys, or an issuer and an identity")
	case byKey:
		return nil
	case p.Issuer == "" || (p.Identity == "") == (p.IdentityPattern == ""):
		return errors.New("a policy names an issuer, and an identity or a pattern for it")
	case len(p.TrustedRoot) == 0:
		return errors.New("a policy by identity has a trusted root")
	}
	_, err := regexp.Compile(p.pattern())
	return err
}

// pattern is anchored: it must match all of the identity.
func (p *Policy) pattern() string {
	if p.IdentityPattern == "" {
		return ""
	}
	return `\A(?:` + p.IdentityPattern + `)\z`
}

// ErrNotSigned is an image without a signature that its policy accepts.
var ErrNotSigned = errors.New("not signed as required")

// Digest names bytes as the lock does.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// safely keeps a library that panics on hostile input from ending the program.
func safely[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the signature is malformed: %v", p)
		}
	}()
	return f()
}
