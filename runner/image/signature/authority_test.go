package signature_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/quavon/quavon/runner/image/signature"
)

// authority is a certificate authority, a time stamping authority and a
// transparency log in this process.
type authority struct {
	*ca.VirtualSigstore
	t testing.TB
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	v, err := ca.NewVirtualSigstore()
	must(t, err)
	return authority{v, t}
}

// root is its trusted root. With ctlog it asks for receipts of a certificate log,
// which this authority's certificates don't have.
func (a authority) root(ctlog bool) []byte {
	a.t.Helper()
	var logs map[string]*root.TransparencyLog
	if ctlog {
		logs = byHex(a.CTLogs())
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, a.FulcioCertificateAuthorities(), logs,
		a.TimestampingAuthorities(), byHex(a.RekorLogs()))
	must(a.t, err)
	raw, err := trusted.MarshalJSON()
	must(a.t, err)
	return raw
}

// byHex corrects the ids of the logs, which the test authority has as text.
func byHex(logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	for id, l := range logs {
		if raw, err := hex.DecodeString(id); err == nil {
			l.ID = raw
		}
		l.SignatureHashFunc = l.HashFunc
	}
	return logs
}

// simple signs a claim as cosign does it by default, in the log at a time.
func (a authority) simple(identity, issuer string, claim []byte, at time.Time) *signature.Bundle {
	a.t.Helper()
	signed, err := a.SignAtTime(identity, issuer, claim, at)
	must(a.t, err)
	entry := a.entry(signed)
	log, err := json.Marshal(bundle.RekorBundle{
		SignedEntryTimestamp: entry.InclusionPromise.SignedEntryTimestamp,
		Payload: bundle.RekorPayload{
			Body: base64.StdEncoding.EncodeToString(entry.CanonicalizedBody), IntegratedTime: entry.IntegratedTime,
			LogIndex: entry.LogIndex, LogID: hex.EncodeToString(entry.LogId.KeyId),
		},
	})
	must(a.t, err)
	content, err := signed.SignatureContent()
	must(a.t, err)
	return &signature.Bundle{Version: 1, Simple: &signature.Simple{Payload: claim, Annotations: map[string]string{
		static.SignatureAnnotationKey:   base64.StdEncoding.EncodeToString(content.Signature()),
		static.CertificateAnnotationKey: string(a.certificate(signed)),
		static.BundleAnnotationKey:      string(log),
	}}}
}

// entry is the log's, with what the library leaves out.
func (a authority) entry(signed verify.SignedEntity) *protorekor.TransparencyLogEntry {
	a.t.Helper()
	entries, err := signed.TlogEntries()
	must(a.t, err)
	e := entries[0].TransparencyLogEntry()
	set, err := a.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(e.CanonicalizedBody), IntegratedTime: e.IntegratedTime,
		LogIndex: e.LogIndex, LogID: hex.EncodeToString(e.LogId.KeyId),
	})
	must(a.t, err)
	var kind struct{ APIVersion, Kind string }
	must(a.t, json.Unmarshal(e.CanonicalizedBody, &kind))
	e.KindVersion = &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion}
	e.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: set}
	return e
}

func (a authority) certificate(signed verify.SignedEntity) []byte {
	a.t.Helper()
	content, err := signed.VerificationContent()
	must(a.t, err)
	pem, err := cryptoutils.MarshalCertificateToPEM(content.Certificate())
	must(a.t, err)
	return pem
}

// sigstore signs a statement in a bundle of the new format.
func (a authority) sigstore(identity, issuer string, statement []byte, at time.Time) *signature.Bundle {
	a.t.Helper()
	signed, err := a.AttestAtTime(identity, issuer, statement, at, true)
	must(a.t, err)
	verification, err := signed.VerificationContent()
	must(a.t, err)
	content, err := signed.SignatureContent()
	must(a.t, err)
	raw, err := protojson.Marshal(&protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_Certificate{
				Certificate: &protocommon.X509Certificate{RawBytes: verification.Certificate().Raw},
			},
			TlogEntries: []*protorekor.TransparencyLogEntry{a.entry(signed)},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: statement, PayloadType: content.EnvelopeContent().RawEnvelope().PayloadType,
			Signatures: []*protodsse.Signature{{Sig: content.Signature()}},
		}},
	})
	must(a.t, err)
	return &signature.Bundle{Version: 1, Sigstore: raw}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
