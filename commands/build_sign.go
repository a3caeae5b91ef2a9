package commands

import (
	"context"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/sign"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

// signatures checks signatures in registries, and signs with a key if there is
// one. It keeps what it saw and made beside the lock.
type signatures struct {
	dir      string
	from     string
	registry source.RegistryOptions
	signer   *sign.Signer
}

var _ imagebuild.Signatures = (*signatures)(nil)

func (o *buildImagesOptions) signatures(b *imagebuild.Builder) (imagebuild.Signatures, error) {
	s := &signatures{
		dir: filepath.Join(filepath.Dir(b.Lock), signature.Dir), from: b.Declaration.Dir,
		registry: source.RegistryOptions{PlainHTTP: o.PlainHTTP},
	}
	if o.SignKey == "" {
		return s, nil
	}
	var err error
	s.signer, err = sign.Open(o.SignKey, sign.Options{PasswordFile: o.Password, Password: o.env(sign.EnvPassword)})
	return s, err
}

func (s *signatures) Verify(ctx context.Context, ref, at string, d *declare.Policy) (*lock.Signature, error) {
	p, err := s.policy(d)
	if err != nil {
		return nil, fault.Wrap(err, "can't read what the signature of "+ref+" is checked with", "correct signature: in the declaration")
	}
	found, err := signature.Registry(ctx, at, s.registry)
	if err != nil {
		return nil, err
	}
	bundle, met, err := p.Find(ctx, found)
	if err != nil {
		return nil, fault.Wrap(err, "the signature of "+ref, "don't use this image before you know why it isn't signed")
	}
	return s.keep(bundle, met)
}

func (s *signatures) policy(d *declare.Policy) (*signature.Policy, error) {
	p := &signature.Policy{Issuer: d.Issuer, Identity: d.Identity, IdentityPattern: d.IdentityPattern}
	const most = 1 << 20
	if d.Key != "" {
		raw, err := bounded.ReadFile(s.path(d.Key), most)
		if err != nil {
			return nil, err
		}
		if p.Keys, err = signature.ParseKeys(raw); err != nil {
			return nil, err
		}
	}
	if d.TrustedRoot != "" {
		var err error
		if p.TrustedRoot, err = bounded.ReadFile(s.path(d.TrustedRoot), most); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (s *signatures) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.from, name)
}

func (s *signatures) keep(b *signature.Bundle, met signature.Met) (*lock.Signature, error) {
	digest, err := b.Write(s.dir)
	if err != nil {
		return nil, fault.Wrap(err, "can't keep a signature", "make "+filepath.Dir(s.dir)+" writable for you")
	}
	out := &lock.Signature{Key: met.Key, Issuer: met.Issuer, Identity: met.Identity, Bundle: digest}
	if met.Key == "" {
		out.TrustedRoot = signature.Digest(b.TrustedRoot)
	}
	return out, nil
}

func (s *signatures) Signer() string {
	if s.signer == nil {
		return ""
	}
	return s.signer.Key.Fingerprint
}

func (s *signatures) Sign(ctx context.Context, name string, config v1.Hash) (*lock.Signature, error) {
	b, err := s.signer.Sign(ctx, "quavon/"+name, config)
	if err != nil {
		return nil, err
	}
	return s.keep(b, signature.Met{Key: s.signer.Key.Fingerprint})
}
