// Package imagebuild turns a declaration of images into what sandboxes run: it has
// the Docker Engine build what is to be built, fetches what exists, puts both into
// the store, makes the file systems that are wanted of them, and writes down in
// images.lock.json exactly what came of it.
//
// An image's source digest covers all it is built from. While it stands in the
// lock, and what the lock names is there, nothing is done.
package imagebuild

import (
	"context"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/service"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// format is the version of the rules by which images are built. It is part of
// every source digest: raise it when the same inputs lead to another image.
const format = 1

// Signatures checks images of registries, and signs what is built.
type Signatures interface {
	// Verify returns how the image met the policy. ref is REPOSITORY@sha256:… as it
	// is declared, at is where it is read: the same, or on a mirror.
	Verify(ctx context.Context, ref, at string, p *declare.Policy) (*lock.Signature, error)
	// Signer is the fingerprint of the key that Sign signs with, "" for none.
	Signer() string
	// Sign signs an image that was built, by the digest of its config.
	Sign(ctx context.Context, name string, config v1.Hash) (*lock.Signature, error)
}

// Builder builds the images of one declaration into one lock.
type Builder struct {
	Declaration *declare.File
	// Lock is the path of the lock file. Other files lie in a directory beside it.
	Lock  string
	Store *image.Store
	// Connect reaches the Docker Engine; it is called when it is first needed.
	Connect func(context.Context) (*engine.Engine, error)
	// Signatures is nil when there are none to check or to make.
	Signatures Signatures
	Mirrors    Mirrors
	// Executables are this program, by architecture.
	Executables map[string]*service.Executable
	// Platforms to build for; nil is this host's.
	Platforms []v1.Platform
	// Secrets are contents by ID, for steps that mount them and for mmdebstrap.
	Secrets map[string][]byte
	// Network of the steps: "" or "default", "host", "none".
	Network   string
	NoCache   bool
	PlainHTTP bool
	// Version of this program, for the lock.
	Version string
	// Events is told what happens, from one goroutine at a time; nil for nobody.
	Events func(Event)

	mu    sync.Mutex
	bases map[string]*base
	connected
}

// Event is something that happened to an image.
type Event struct {
	// Image is its name; of a base, "base NAME".
	Image    string
	Platform string
	// Text says what; Log is a line of a step's output instead.
	Text, Log string
	// Done of Total bytes, when Text is an activity that goes on; Total is 0 when
	// it isn't known.
	Done, Total int64
	// Going marks what is only of interest while it lasts.
	Going bool
}

func (b *Builder) tell(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tell(b.Events, e)
}

// docker is the engine, connected once.
func (b *Builder) docker(ctx context.Context) (*engine.Engine, error) {
	return b.reach(ctx, b.Connect)
}

// platforms of an image that are asked for, among those it is declared for.
func (b *Builder) platforms(i *declare.Image) []v1.Platform {
	wanted := b.Platforms
	if wanted == nil {
		wanted = []v1.Platform{source.Host()}
	}
	var out []v1.Platform
	for _, name := range i.Platforms {
		for _, p := range wanted {
			if p.String() == name {
				out = append(out, p)
			}
		}
	}
	return out
}
