package commands

import (
	"context"
	"log/slog"
	"sync"

	"github.com/quavon/quavon/runner/sandbox"
)

// reaping is a backend that removes what crashed runs left behind once it has
// started a sandbox, while that one boots: so it costs a job no time.
type reaping struct {
	sandbox.Backend
	log  *slog.Logger
	reap sync.WaitGroup
}

// Start implements sandbox.Backend.
func (r *reaping) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	s, err := r.Backend.Start(ctx, c)
	r.reap.Go(func() {
		ids, err := r.Reap(ctx)
		if len(ids) > 0 {
			r.log.Info("removed what crashed runs left", "sandboxes", ids)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("can't remove what crashed runs left", "error", err)
		}
	})
	return s, err
}

// Unwrap gives sandbox.AsDetached the backend itself.
func (r *reaping) Unwrap() sandbox.Backend { return r.Backend }

// wait returns when nothing is being removed any more.
func (r *reaping) wait() { r.reap.Wait() }
