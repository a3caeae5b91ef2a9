package smoke

import (
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/sandbox"
)

// For is a suite of a runner's own backend, as its jobs have it. image is the digest
// of an image to run in, for a backend that can't show the host's toolchain.
func For(r *runner.Runner, image string) *Suite {
	s := &Suite{Runner: r, Backend: r.Backend.Name(), Policies: r.Backend.Policies(), Guest: r.Guest, Image: image}
	if l := sandbox.AsLocated(r.Backend); l != nil {
		s.Locate = l.Processes
	}
	if b, ok := r.Backend.(interface{ Binary() string }); ok {
		s.Binary = b.Binary()
	}
	s.User = r.User
	return s
}
