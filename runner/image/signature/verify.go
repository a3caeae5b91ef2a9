package signature

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	cbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/cosign/v2/pkg/types"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// Verify checks the signature against the policy, without any network, and says
// who signed. The caller checks that b.Digest is the image's.
func (b *Bundle) Verify(ctx context.Context, p *Policy) (Met, error) {
	if err := p.Check(); err != nil {
		return Met{}, err
	}
	if len(p.Keys) > 0 {
		return b.byKey(ctx, p.Keys)
	}
	return safely(func() (Met, error) { return b.byIdentity(ctx, p) })
}

func (b *Bundle) byKey(ctx context.Context, keys []Key) (Met, error) {
	var errs []error
	for _, k := range keys {
		for _, v := range k.verifiers {
			// The key is the operator's, who knows when it was good: no log is asked.
			co := &cosign.CheckOpts{SigVerifier: v, IgnoreTlog: true, Offline: true, TrustedMaterial: &root.BaseTrustedMaterial{}}
			_, err := safely(func() (string, error) { return b.check(ctx, co) })
			if err == nil {
				return Met{Key: k.Fingerprint}, nil
			}
			errs = append(errs, err)
		}
	}
	return Met{}, errs[0]
}

func (b *Bundle) byIdentity(ctx context.Context, p *Policy) (Met, error) {
	trusted, err := root.NewTrustedRootFromJSON(p.TrustedRoot)
	if err != nil {
		return Met{}, fmt.Errorf("the trusted root can't be read: %w", err)
	}
	co := &cosign.CheckOpts{
		TrustedMaterial: trusted, Offline: true,
		// A root that knows no certificate log can't ask for its receipts.
		IgnoreSCT: len(trusted.CTLogs()) == 0,
		Identities: []cosign.Identity{{
			Issuer: p.Issuer, Subject: p.Identity, SubjectRegExp: p.pattern(),
		}},
	}
	identity, err := b.check(ctx, co)
	return Met{Issuer: p.Issuer, Identity: identity}, err
}

// check lets cosign check the signature, and returns the certificate's identity.
func (b *Bundle) check(ctx context.Context, co *cosign.CheckOpts) (identity string, err error) {
	if b.Simple != nil {
		return b.Simple.check(ctx, co, b.Digest)
	}
	return checkSigstore(ctx, co, b.Sigstore, b.Digest)
}

func (s *Simple) check(ctx context.Context, co *cosign.CheckOpts, digest v1.Hash) (string, error) {
	signature, err := s.signature(co.SigVerifier != nil)
	if err != nil {
		return "", err
	}
	stamp, err := signature.RFC3161Timestamp()
	if err != nil {
		return "", err
	}
	co.UseSignedTimestamps = stamp != nil
	co.ClaimVerifier = claims
	if _, err := cosign.VerifyImageSignature(ctx, signature, digest, co); err != nil {
		return "", err
	}
	cert, err := signature.Cert()
	if err != nil || cert == nil {
		return "", err
	}
	return matching(co.Identities, cryptoutils.GetSubjectAlternateNames(cert))
}

// signature is what cosign works on. For a key, whatever else is attached is left
// out: it could only make a good signature fail later, when a certificate ends.
func (s *Simple) signature(byKey bool) (oci.Signature, error) {
	var opts []static.Option
	if cert := s.Annotations[static.CertificateAnnotationKey]; cert != "" && !byKey {
		opts = append(opts, static.WithCertChain([]byte(cert), []byte(s.Annotations[static.ChainAnnotationKey])))
	}
	if raw := s.Annotations[static.BundleAnnotationKey]; raw != "" && !byKey {
		entry := new(cbundle.RekorBundle)
		if err := json.Unmarshal([]byte(raw), entry); err != nil {
			return nil, fmt.Errorf("the log entry can't be read: %w", err)
		}
		if _, ok := entry.Payload.Body.(string); !ok {
			return nil, errors.New("the log entry has no body")
		}
		opts = append(opts, static.WithBundle(entry))
	}
	if raw := s.Annotations[static.RFC3161TimestampAnnotationKey]; raw != "" && !byKey {
		stamp := new(cbundle.RFC3161Timestamp)
		if err := json.Unmarshal([]byte(raw), stamp); err != nil {
			return nil, fmt.Errorf("the time stamp can't be read: %w", err)
		}
		opts = append(opts, static.WithRFC3161Timestamp(stamp))
	}
	return static.NewSignature(s.Payload, s.Annotations[static.SignatureAnnotationKey], opts...)
}

// claims checks what the signed payload says: cosign's own check, and that it is
// a statement about an image at all.
func claims(s oci.Signature, digest v1.Hash, annotations map[string]any) error {
	raw, err := s.Payload()
	if err != nil {
		return err
	}
	claim := new(payload.SimpleContainerImage)
	if err := json.Unmarshal(raw, claim); err != nil {
		return fmt.Errorf("what was signed can't be read: %w", err)
	}
	if claim.Critical.Type != payload.CosignSignatureType {
		return fmt.Errorf("what was signed is %q, not an image signature", claim.Critical.Type)
	}
	return cosign.SimpleClaimVerifier(s, digest, annotations)
}

func checkSigstore(ctx context.Context, co *cosign.CheckOpts, raw []byte, digest v1.Hash) (string, error) {
	signed := new(bundle.Bundle)
	if err := signed.UnmarshalJSON(raw); err != nil {
		return "", fmt.Errorf("the bundle can't be read: %w", err)
	}
	sum, err := hex.DecodeString(digest.Hex)
	if err != nil {
		return "", err
	}
	stamps, err := signed.Timestamps()
	if err != nil {
		return "", err
	}
	co.UseSignedTimestamps = co.SigVerifier == nil && len(stamps) > 0
	result, err := cosign.VerifyNewBundle(ctx, co, verify.WithArtifactDigest("sha256", sum), signed)
	if err != nil {
		return "", err
	}
	// Other attestations name the image as well, such as a list of its faults.
	if result.Statement == nil || result.Statement.PredicateType != types.CosignSignPredicateType {
		return "", errors.New("the bundle is an attestation of something else than a signature")
	}
	if result.Signature == nil || result.Signature.Certificate == nil {
		return "", nil
	}
	return result.Signature.Certificate.SubjectAlternativeName, nil
}
