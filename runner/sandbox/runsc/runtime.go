package runsc

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
)

var _ sandbox.Identified = (*Backend)(nil)

// Runtime implements sandbox.Identified.
func (b *Backend) Runtime(context.Context) (sandbox.Runtime, error) {
	digest, err := b.digest.Digest(b.binary)
	if err != nil {
		return sandbox.Runtime{}, fault.Wrap(err, "read "+b.binary, "run `make`, or set "+EnvBinary+" to a working runsc")
	}
	args := slices.Clone(constantArgs)
	if b.rootless {
		args = append(args, "(rootless)")
	}
	helpers, err := b.helpers()
	if err != nil {
		return sandbox.Runtime{}, fault.Wrap(err, "read the helpers beside "+b.binary, "unpack the whole archive of one release")
	}
	args = append(args, helpers...)
	if b.weakness != nil {
		args = append(args, "(weakened: "+b.weakness.Name+")")
	}
	return sandbox.Runtime{Version: b.version(), Digest: digest, Args: args, Platform: "systrap"}, nil
}

// HelpersDir is where releases of gVisor have their helpers, beside runsc.
const HelpersDir = "gvisor-bin"

// helpers are the programs beside runsc that it starts, with their digests.
func (b *Backend) helpers() (list []string, err error) {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(b.binary), HelpersDir, "*")) // the pattern is right
	for _, path := range files {
		if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
			continue
		}
		seen, _ := b.seen.LoadOrStore(path, &evidence.File{})
		file, ok := seen.(*evidence.File)
		if !ok {
			continue
		}
		digest, err := file.Digest(path)
		if err != nil {
			return nil, err
		}
		list = append(list, "(with "+filepath.Base(path)+" "+digest+")")
	}
	return list, nil
}
