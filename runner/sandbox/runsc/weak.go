package runsc

import (
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/state"
)

// Weakness changes for the worse how sandboxes are started. A probe of a sandbox is
// worth something only if it reports one that is weak: that is what this is for,
// and nothing else may have it.
type Weakness struct {
	// Name tells one weakness from another.
	Name string
	// Accept is RiskWeakArm where somebody wants it on this host.
	Accept string
	// Bundle edits a sandbox's bundle, Args the runtime's command line.
	Bundle func(*specs.Spec)
	Args   func([]string) []string
	// Files are inherited by the runtime, from descriptor 3 on.
	Files []*os.File
}

// RiskWeakArm is what who wants weakened sandboxes on a host has to say: nothing of what
// they hold is kept from it.
const RiskWeakArm = "weak-arm"

// NewWeak makes a backend whose sandboxes don't isolate as they should. binary may
// be another runtime, such as runc, when the weakness translates for it.
func NewWeak(binary string, dir *state.Dir, w Weakness) (*Backend, error) {
	if w.Accept != RiskWeakArm {
		return nil, fault.New("a weakened sandbox is refused on this host",
			"on one that runs no jobs of others, accept it by its name: --accept-risk="+RiskWeakArm)
	}
	b := New(binary, dir)
	b.weakness = &w
	return b, nil
}

// amend is the bundle as it will be.
func (w *Weakness) amend(spec *specs.Spec) *specs.Spec {
	if w != nil && w.Bundle != nil {
		w.Bundle(spec)
	}
	return spec
}

// args is the command line as it will be.
func (w *Weakness) args(args []string) []string {
	if w != nil && w.Args != nil {
		return w.Args(args)
	}
	return args
}

// files are what the runtime inherits.
func (w *Weakness) files() []*os.File {
	if w == nil {
		return nil
	}
	return w.Files
}
