package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/sandbox"
)

var _ sandbox.Identified = (*Backend)(nil)

// Runtime implements sandbox.Identified. The engine shows no digest of a runtime's
// program: what stands for it is the digest of all that the engine tells of itself and
// of the runtime, and of the file that has the registered path on this side of the
// socket, if there is one. It asks the engine anew, so that an upgrade shows.
func (b *Backend) Runtime(ctx context.Context) (sandbox.Runtime, error) {
	b.mu.Lock()
	b.engine = nil
	b.mu.Unlock()
	e, err := b.checked(ctx)
	if err != nil {
		return sandbox.Runtime{}, err
	}
	all := append([]string{e.version, b.Config.Runtime, b.programDigest(e)}, e.runtime...)
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
	r := sandbox.Runtime{Version: b.runtimeName(e), Digest: "sha256:" + hex.EncodeToString(sum[:]), Args: slices.Clone(e.runtime)}
	if b.gvisor() {
		r.Platform = e.platform()
	}
	return r, nil
}

// programDigest is that of the runtime's file, "" where it isn't to be seen.
func (b *Backend) programDigest(e *engine) string {
	if len(e.runtime) == 0 || !filepath.IsAbs(e.runtime[0]) {
		return ""
	}
	digest, err := b.program.Digest(e.runtime[0])
	if err != nil {
		return ""
	}
	return digest
}

func (b *Backend) runtimeName(e *engine) string { return b.Config.Runtime + " of Docker " + e.version }
