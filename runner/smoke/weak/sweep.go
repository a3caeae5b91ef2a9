package weak

import (
	"context"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/runner/sandbox"
)

// sweeper is runc's backend: runc makes a control group in every hierarchy there is, and
// doesn't always come to remove those that the backend doesn't know.
type sweeper struct{ sandbox.Backend }

func (s sweeper) Unwrap() sandbox.Backend { return s.Backend }

// Start implements sandbox.Backend.
func (s sweeper) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	box, err := s.Backend.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return swept{box, c.ID}, nil
}

type swept struct {
	sandbox.Sandbox
	id string
}

// Stop implements sandbox.Sandbox.
func (s swept) Stop(ctx context.Context) error {
	if err := s.Sandbox.Stop(ctx); err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", groups, s.id))
	for _, dir := range dirs {
		_ = os.Remove(dir)               // its processes have ended
		_ = os.Remove(filepath.Dir(dir)) // fails while another sandbox is there
	}
	return err
}
