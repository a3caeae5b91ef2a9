package runner

import (
	"context"

	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// User is who a job in this root runs as.
func (r *Runner) User(ctx context.Context, in job.Root) (u image.User, err error) {
	var opened root = hostRoot{}
	if in.Kind == job.RootImage {
		if d := sandbox.AsDetached(r.Backend); d != nil {
			opened, err = openDetached(ctx, d, in)
		} else {
			opened, err = openImage(ctx, r.Images, in)
		}
		if err != nil {
			return u, err
		}
		defer func() { _ = opened.Close() }() // a lock, nothing to flush
	}
	return opened.user(), nil
}
