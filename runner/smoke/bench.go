package smoke

import (
	"context"
	"errors"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/job"
)

// Bench is what a smoke test works with: the sandboxes it may start and what it has
// put on the host.
type Bench struct {
	// Suite is what is tested; Nonce is this test's own.
	*Suite
	Nonce string
	// Dir is a directory of the host's, for the test alone; Workspace one of it that
	// the shared sandbox shows as its workspace, with a writable layer.
	Dir, Workspace string
	// Params go to quavon-guest.
	Params map[string][]string

	root    job.Root
	user    image.User
	limits  job.Limits
	bound   evidence.Bound
	planted planted
	done    map[string]error
	world   *World
	door    runner.Door
	cleanup []func() error
	release func() error
}

// Cleanup has f called after the test, the last one first.
func (b *Bench) Cleanup(f func() error) { b.cleanup = append(b.cleanup, f) }

func (b *Bench) close() error {
	var errs []error
	for i := len(b.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, b.cleanup[i]())
	}
	return errors.Join(append(errs, b.release())...)
}

// Set replaces a parameter of the guest's input.
func (b *Bench) Set(name string, values ...string) { b.Params[name] = values }

// AsRoot says that jobs are meant to be root of their sandbox, as those of an image are
// that names no user. Root without capabilities owns the files of its sandbox, and those
// that the sandbox's own kernel shows.
func (b *Bench) AsRoot() bool { return b.user.UID == 0 }

// Family is the family of the backend as it claims to be.
func (b *Bench) Family() Family { return FamilyOf(b.Backend) }

// Processes are the host's processes of a sandbox of this test.
func (b *Bench) Processes(ctx context.Context, id string) ([]int, error) {
	if b.Locate == nil {
		return nil, errors.New("the backend doesn't tell its sandboxes' processes")
	}
	return b.Locate(ctx, id)
}
