package signature

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxTold bounds how many reasons an error names.
const maxTold = 3

// Find returns the first of the signatures that meets the policy, complete with
// the key or the root it was checked with, and who signed. Errors are
// ErrNotSigned unless the policy itself is wrong.
func (p *Policy) Find(ctx context.Context, found []*Bundle) (*Bundle, Met, error) {
	if err := p.Check(); err != nil {
		return nil, Met{}, err
	}
	var why []string
	for _, b := range found {
		if err := ctx.Err(); err != nil {
			return nil, Met{}, context.Cause(ctx)
		}
		met, err := b.Verify(ctx, p)
		if err == nil {
			return p.complete(b, met), met, nil
		}
		if len(why) < maxTold {
			why = append(why, err.Error())
		}
	}
	if len(found) == 0 {
		return nil, Met{}, fmt.Errorf("%w: there is no signature", ErrNotSigned)
	}
	return nil, Met{}, fmt.Errorf("%w: none of %d signatures will do: %s", ErrNotSigned, len(found), strings.Join(why, "; "))
}

func (p *Policy) complete(b *Bundle, met Met) *Bundle {
	done := *b
	done.Version, done.Key, done.TrustedRoot = bundleVersion, "", nil
	for _, k := range p.Keys {
		if k.Fingerprint == met.Key {
			done.Key = k.PEM
		}
	}
	if met.Key == "" {
		done.TrustedRoot = p.TrustedRoot
	}
	return &done
}

// Wanted is what a lock says of a signature.
type Wanted struct {
	Met
	// TrustedRoot is the digest of the file that an identity is checked with.
	TrustedRoot string
	// Digests that may have been signed: the image's index, manifest or config.
	Digests []v1.Hash
}

// Check verifies a stored bundle against the lock: its own key or root is only
// used when it is the one that the lock names.
func (b *Bundle) Check(ctx context.Context, w Wanted) error {
	p := &Policy{Issuer: w.Issuer, Identity: w.Identity, TrustedRoot: b.TrustedRoot}
	if w.Key != "" {
		keys, err := ParseKeys([]byte(b.Key))
		if err != nil {
			return fmt.Errorf("the bundle's key: %w", err)
		}
		if len(keys) != 1 || keys[0].Fingerprint != w.Key {
			return errors.New("the bundle has another key than the lock names")
		}
		p.Keys, p.TrustedRoot = keys, nil
	} else if Digest(b.TrustedRoot) != w.TrustedRoot {
		return errors.New("the bundle has another trusted root than the lock names")
	}
	for _, d := range w.Digests {
		if d == b.Digest {
			_, err := b.Verify(ctx, p)
			return err
		}
	}
	return fmt.Errorf("%s was signed, which isn't this image", b.Digest)
}
