package signature

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/source"
)

// Registry lists what the registry has as signatures of ref, an index or a
// manifest: cosign's tag beside it, and bundles that refer to it. Nothing of it
// has been checked; there may be none.
func Registry(ctx context.Context, ref string, o source.RegistryOptions) ([]*Bundle, error) {
	at, err := source.ParseDigest(ref, o.PlainHTTP)
	if err != nil {
		return nil, err
	}
	puller, err := o.Puller()
	if err != nil {
		return nil, err
	}
	f := &finder{docs: &repository{at.Context(), puller}}
	if f.digest, err = v1.NewHash(at.DigestStr()); err != nil {
		return nil, err
	}
	err = f.registry(ctx, at, puller)
	if err == nil {
		err = f.failure()
	}
	if err != nil {
		return nil, fault.Wrap(err, "can't read the signatures of "+at.String(),
			"check the reference, `docker login "+at.Context().RegistryStr()+"`, and the network")
	}
	return f.found, nil
}

type repository struct {
	repo   name.Repository
	puller *remote.Puller
}

func (r *repository) manifest(ctx context.Context, digest v1.Hash) (io.ReadCloser, error) {
	m, err := r.puller.Get(ctx, r.repo.Digest(digest.String()))
	if err != nil {
		return nil, err
	}
	return io.NopCloser(strings.NewReader(string(m.Manifest))), nil
}

func (r *repository) blob(ctx context.Context, digest v1.Hash) (io.ReadCloser, error) {
	l, err := r.puller.Layer(ctx, r.repo.Digest(digest.String()))
	if err != nil {
		return nil, err
	}
	return l.Compressed()
}

func (f *finder) registry(ctx context.Context, at name.Digest, puller *remote.Puller) error {
	tag := at.Context().Tag(signatureTag(f.digest))
	m, err := puller.Get(ctx, tag)
	switch {
	case err == nil:
		f.simple(ctx, m.Manifest)
	case !isMissing(err):
		return err
	}
	ix, err := remote.Referrers(at, remote.WithContext(ctx), remote.Reuse(puller))
	if err != nil {
		return err
	}
	list, err := ix.IndexManifest()
	if err != nil {
		return err
	}
	f.referrers(ctx, list.Manifests)
	return nil
}

// signatureTag is where cosign puts signatures of a digest.
func signatureTag(d v1.Hash) string { return d.Algorithm + "-" + d.Hex + ".sig" }

func isMissing(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}
