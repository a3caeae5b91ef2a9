package runsc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
)

var _ sandbox.Identified = (*Backend)(nil)

// Runtime implements sandbox.Identified.
func (b *Backend) Runtime(context.Context) (sandbox.Runtime, error) {
	digest, err := b.digest.of(b.binary)
	if err != nil {
		return sandbox.Runtime{}, fault.Wrap(err, "read "+b.binary, "run `make`, or set "+EnvBinary+" to a working runsc")
	}
	args := slices.Clone(constantArgs)
	if b.rootless {
		args = append(args, "(rootless)")
	}
	if b.weakness != nil {
		args = append(args, "(weakened: "+b.weakness.Name+")")
	}
	return sandbox.Runtime{Version: b.version(), Digest: digest, Args: args, Platform: "systrap"}, nil
}

// fileDigest remembers a file's digest while the file stays the same.
type fileDigest struct {
	mu     sync.Mutex
	seen   os.FileInfo
	digest string
}

func (d *fileDigest) of(path string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if d.seen != nil && os.SameFile(fi, d.seen) && fi.Size() == d.seen.Size() && fi.ModTime().Equal(d.seen.ModTime()) {
		return d.digest, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	d.seen, d.digest = fi, "sha256:"+hex.EncodeToString(h.Sum(nil))
	return d.digest, nil
}
