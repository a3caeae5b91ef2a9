package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/workspace"
)

// nobody owns what in a mount isn't its owner's: a stranger to the job.
const nobody = 65534

// load copies the mounts into a sandbox that can't see them.
func (j *run) load(parent context.Context) error {
	ctx, cancel := context.WithTimeoutCause(parent, collectTimeout, errSilent)
	defer cancel()
	as := j.root.user()
	for i, m := range j.spec.Mounts {
		lower := fmt.Sprintf("%s/%d", sandbox.LowerDir, i)
		if err := j.loadPart(ctx, lower, m.Source, workspace.Owners, int(as.UID), int(as.GID)); err != nil {
			return fmt.Errorf("copy %s into the sandbox: %w", m.Source, err)
		}
		if err := j.loadPart(ctx, lower, m.Source, workspace.Foreign, nobody, nobody); err != nil {
			return fmt.Errorf("copy other people's files of %s into the sandbox: %w", m.Source, err)
		}
	}
	return nil
}

func (j *run) loadPart(ctx context.Context, lower, source string, whose workspace.Whose, uid, gid int) error {
	return through(
		func(w io.Writer) error {
			_, err := workspace.Pack(ctx, source, whose, w)
			return err
		},
		func(r io.Reader) error { return j.client.Put(ctx, lower, uid, gid, r) },
	)
}

// loadFailed tells a workspace that doesn't fit from a sandbox that was lost.
func (j *run) loadFailed(ctx context.Context, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		j.end(job.ReasonLimitDisk, "the copy of the workspace doesn't fit into the disk limit")
		return nil
	}
	err = j.startFailed(ctx, err)
	var f *fault.Error
	if errors.As(err, &f) {
		f.Hint = cmp.Or(f.Hint, "check that the directory can be read, and that nothing in it changes now")
	}
	return err
}
