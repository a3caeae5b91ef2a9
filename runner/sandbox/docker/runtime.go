package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/sandbox"
)

var _ sandbox.Identified = (*Backend)(nil)

// Runtime implements sandbox.Identified. The engine shows no digest of a runtime's
// program, which may not be on this side of the socket at all: what stands for it
// is the digest of all that the engine tells of itself and of the runtime. It asks
// the engine anew, so that an upgrade shows.
func (b *Backend) Runtime(ctx context.Context) (sandbox.Runtime, error) {
	b.mu.Lock()
	b.engine = nil
	b.mu.Unlock()
	e, err := b.checked(ctx)
	if err != nil {
		return sandbox.Runtime{}, err
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{e.version, b.Config.Runtime}, e.runtime...), "\x00")))
	r := sandbox.Runtime{Version: b.runtimeName(e), Digest: "sha256:" + hex.EncodeToString(sum[:]), Args: slices.Clone(e.runtime)}
	if b.gvisor() {
		r.Platform = e.platform()
	}
	return r, nil
}

func (b *Backend) runtimeName(e *engine) string { return b.Config.Runtime + " of Docker " + e.version }
