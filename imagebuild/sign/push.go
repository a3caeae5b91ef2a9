package sign

import (
	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/static"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

// Push adds a signature to those of an image in a registry, under cosign's tag,
// unless it is there. ref is REPOSITORY@DIGEST, the digest that was signed.
func Push(ctx context.Context, ref string, b *signature.Bundle, o source.RegistryOptions) error {
	at, err := source.ParseDigest(ref, o.PlainHTTP)
	if err != nil {
		return err
	}
	if at.DigestStr() != b.Digest.String() || b.Simple == nil {
		return errors.New("the signature is not of " + at.String())
	}
	if err := push(ctx, at, b.Simple, o); err != nil {
		return fault.Wrap(err, "can't push the signature of "+at.String(),
			"check that you may push there: `docker login "+at.Context().RegistryStr()+"`")
	}
	return nil
}

func push(ctx context.Context, at name.Digest, s *signature.Simple, o source.RegistryOptions) error {
	opts := ociremote.WithRemoteOptions(remoteOptions(ctx, o)...)
	entity, err := ociremote.SignedEntity(at, opts)
	if err != nil {
		return err
	}
	added, err := static.NewSignature(s.Payload, s.Annotations[static.SignatureAnnotationKey])
	if err != nil {
		return err
	}
	entity, err = mutate.AttachSignatureToEntity(entity, added, mutate.WithDupeDetector(same{}))
	if err != nil {
		return err
	}
	return ociremote.WriteSignatures(at.Context(), entity, opts)
}

func remoteOptions(ctx context.Context, o source.RegistryOptions) []remote.Option {
	opts := []remote.Option{remote.WithContext(ctx), remote.WithUserAgent("quavon")}
	if o.Transport != nil {
		opts = append(opts, remote.WithTransport(o.Transport))
	}
	if o.Keychain != nil {
		return append(opts, remote.WithAuthFromKeychain(o.Keychain))
	}
	return append(opts, remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// same finds a signature that is there already.
type same struct{}

// Find implements mutate.DupeDetector.
func (same) Find(there oci.Signatures, added oci.Signature) (oci.Signature, error) {
	want, err := added.Base64Signature()
	if err != nil {
		return nil, err
	}
	all, err := there.Get()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if have, err := s.Base64Signature(); err == nil && have == want {
			return s, nil
		}
	}
	return nil, nil
}
