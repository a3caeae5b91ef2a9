package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/signature"
)

// Reference is what the signature of a manifest calls it. The name is part of what is
// signed, and no image can have it: a signature of the one is none of the other.
const Reference = "quavon.invalid/bundle"

// Trust is who must have signed a bundle.
type Trust struct {
	// Keys are fingerprints of public keys, sha256: and 64 digits; any of them will do.
	Keys []string
	// Unsigned takes a bundle whoever made it, when there are no Keys.
	Unsigned bool
}

// UnsignedRisk is the name by which a bundle that nobody known has signed is accepted.
const UnsignedRisk = "unsigned-bundle"

// maxKeys bounds a file of public keys.
const maxKeys = 64 << 10

// ParseTrust reads what a flag says: fingerprints, or files of public keys.
func ParseTrust(keys []string, unsigned bool) (Trust, error) {
	t := Trust{Unsigned: unsigned}
	for _, k := range keys {
		if strings.HasPrefix(k, "sha256:") {
			if !forms().digest.MatchString(k) {
				return t, fault.New(fmt.Sprintf("%.80q is no key's fingerprint", k), "write sha256: and 64 hexadecimal digits")
			}
			t.Keys = append(t.Keys, k)
			continue
		}
		raw, err := bounded.ReadFile(k, maxKeys)
		if err != nil {
			return t, fault.Wrap(err, "can't read the key", "name a file with a public key, or a key's fingerprint")
		}
		all, err := signature.ParseKeys(raw)
		if err != nil {
			return t, fault.Wrap(err, k+" can't be used", "name a file with a public key, such as cosign.pub")
		}
		for _, one := range all {
			t.Keys = append(t.Keys, one.Fingerprint)
		}
	}
	return t, nil
}

// ErrUntrusted is a bundle that isn't signed as it must be.
var ErrUntrusted = errors.New("not signed as required")

// check says by which key the manifest with a digest was signed, "" when that was
// not asked for.
func (t *Trust) check(ctx context.Context, raw []byte, digest v1.Hash) (string, error) {
	if len(t.Keys) == 0 && t.Unsigned {
		return "", nil
	}
	const hint = "name the key of whoever makes your bundles; --accept-risk=" + UnsignedRisk + " takes one from anybody"
	if raw == nil {
		return "", fault.Wrap(ErrUntrusted, "nobody has signed the bundle", hint)
	}
	b, err := signature.ParseBundle(raw, signature.Digest(raw))
	if err != nil {
		return "", fault.Wrap(errors.Join(ErrUntrusted, err), "the bundle's signature", "have the bundle made again")
	}
	if len(t.Keys) == 0 {
		return "", fault.Wrap(ErrUntrusted, "the bundle is signed, but it isn't said by whom it must be"+claimed(b), hint)
	}
	for _, key := range t.Keys {
		if err = b.Check(ctx, signature.Wanted{Met: signature.Met{Key: key}, Digests: []v1.Hash{digest}}); err == nil {
			err = forBundles(b)
		}
		if err == nil {
			return key, nil
		}
	}
	return "", fault.Wrap(errors.Join(ErrUntrusted, err), "the bundle's signature"+claimed(b),
		"don't use this bundle before you know who made it")
}

// claimed is the key that a signature came with, which says nothing about whose it is.
func claimed(b *signature.Bundle) string {
	keys, err := signature.ParseKeys([]byte(b.Key))
	if err != nil || len(keys) != 1 {
		return ""
	}
	return " (it has the key " + keys[0].Fingerprint + ")"
}

// forBundles makes sure that a manifest was signed, and not an image whose config
// could be read as one.
func forBundles(b *signature.Bundle) error {
	if b.Simple == nil {
		return errors.New("it is of a kind that bundles don't have")
	}
	var claim struct {
		Critical struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(b.Simple.Payload, &claim); err != nil {
		return err
	}
	if got := claim.Critical.Identity.Reference; got != Reference {
		return fmt.Errorf("it was made for %.80q, not for a bundle", got)
	}
	return nil
}
