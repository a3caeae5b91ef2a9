package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/quavon/quavon/runner/fault"
)

// RegistryOptions says how to reach a registry. The zero value is https with
// what `docker login` left.
type RegistryOptions struct {
	// PlainHTTP also allows http, for registries that don't have https.
	PlainHTTP bool
	Keychain  authn.Keychain
	Transport http.RoundTripper
}

// stall is how long a registry may send nothing.
const stall = time.Minute

// Registry finds the image that ref names by digest, "host/repo@sha256:…". Tags
// are refused, also beside a digest where they would only look like a promise.
func Registry(ctx context.Context, ref string, p v1.Platform, o RegistryOptions) (*Image, error) {
	at, err := ParseDigest(ref, o.PlainHTTP)
	if err != nil {
		return nil, err
	}
	digest, err := v1.NewHash(at.DigestStr())
	if err != nil {
		return nil, fault.Wrap(err, "can't read the reference "+ref, "end it with @sha256: and 64 hexadecimal digits")
	}
	b, err := newRegistry(ctx, at, o)
	if err != nil {
		return nil, err
	}
	img, err := walk(ctx, b, v1.Descriptor{Digest: digest}, p)
	if err != nil {
		return nil, err
	}
	img.Origin = at.String()
	return img, nil
}

// ParseDigest parses a reference that names its image by digest only.
func ParseDigest(ref string, plainHTTP bool) (name.Digest, error) {
	const hint = "name the image by digest: REPOSITORY@sha256:…; `docker buildx imagetools inspect %s` prints it"
	if !strings.Contains(ref, "@") {
		return name.Digest{}, fault.New("the tag of "+ref+" can be moved to another image", fmt.Sprintf(hint, ref))
	}
	repo, digest, _ := strings.Cut(ref, "@")
	if slash := strings.LastIndex(repo, "/"); strings.Contains(repo[slash+1:], ":") {
		repo = repo[:slash+1+strings.Index(repo[slash+1:], ":")]
		return name.Digest{}, fault.New("the reference "+ref+" has a tag and a digest", "leave the tag out: "+repo+"@"+digest)
	}
	var opts []name.Option
	if plainHTTP {
		opts = append(opts, name.Insecure)
	}
	d, err := name.NewDigest(ref, opts...)
	if err != nil {
		return d, fault.Wrap(err, "can't read the reference "+ref, fmt.Sprintf(hint, repo))
	}
	return d, nil
}

type registry struct {
	repo   name.Repository
	puller *remote.Puller
}

func newRegistry(_ context.Context, at name.Digest, o RegistryOptions) (*registry, error) {
	puller, err := o.Puller()
	if err != nil {
		return nil, err
	}
	return &registry{at.Context(), puller}, nil
}

// Puller reads from registries; no document it reads is longer than 4 MiB.
func (o RegistryOptions) Puller() (*remote.Puller, error) {
	if o.Keychain == nil {
		o.Keychain = authn.DefaultKeychain
	}
	if o.Transport == nil {
		o.Transport = remote.DefaultTransport
	}
	return remote.NewPuller(
		remote.WithAuthFromKeychain(o.Keychain),
		remote.WithTransport(&boundedTransport{o.Transport}),
		remote.WithUserAgent("quavon"),
	)
}

// open fetches a manifest when the descriptor says so, or says nothing.
func (r *registry) open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	ref := r.repo.Digest(d.Digest.String())
	if d.MediaType == "" || d.MediaType.IsIndex() || d.MediaType.IsImage() {
		m, err := r.puller.Get(ctx, ref)
		if err != nil {
			return nil, unreachable(err, ref)
		}
		return io.NopCloser(strings.NewReader(string(m.Manifest))), nil
	}
	l, err := r.puller.Layer(ctx, ref)
	if err != nil {
		return nil, unreachable(err, ref)
	}
	blob, err := l.Compressed()
	if err != nil {
		return nil, unreachable(err, ref)
	}
	return newStallGuard(blob), nil
}

func unreachable(err error, ref name.Digest) error {
	return fault.Wrap(err, "can't fetch "+ref.String(), "check the reference, `docker login "+ref.RegistryStr()+"`, and the network")
}

// boundedTransport keeps a registry from sending documents without end to code
// that reads them whole.
type boundedTransport struct{ next http.RoundTripper }

func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || strings.Contains(req.URL.Path, "/blobs/") || req.Response != nil {
		return resp, err
	}
	if resp.ContentLength > maxDocument {
		err := fmt.Errorf("%s sends %d bytes, more than %d", req.URL.Host, resp.ContentLength, maxDocument)
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = &boundedBody{resp.Body, maxDocument}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the registry sends more than %d bytes", maxDocument)
	}
	return n, err
}

// stallGuard ends a download that makes no progress.
type stallGuard struct {
	io.ReadCloser
	timer *time.Timer
}

func newStallGuard(r io.ReadCloser) *stallGuard {
	return &stallGuard{r, time.AfterFunc(stall, func() { _ = r.Close() })}
}

func (g *stallGuard) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	if !g.timer.Reset(stall) && err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the registry sent nothing for %v: %w", stall, err)
	}
	return n, err
}

func (g *stallGuard) Close() error {
	g.timer.Stop()
	return g.ReadCloser.Close()
}
