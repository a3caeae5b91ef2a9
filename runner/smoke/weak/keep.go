package weak

import (
	"context"
	"sync"

	"github.com/quavon/quavon/runner/sandbox"
)

// keeper is a backend that doesn't take down its sandboxes before it must.
type keeper struct {
	sandbox.Backend
	mu   sync.Mutex
	kept []sandbox.Sandbox
}

func (k *keeper) Unwrap() sandbox.Backend { return k.Backend }

// Start implements sandbox.Backend.
func (k *keeper) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	s, err := k.Backend.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, s)
	return kept{s}, nil
}

func (k *keeper) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.kept {
		_ = s.Stop(context.Background()) //nolint:forbidigo // nothing may keep it; reaped by the next start otherwise
	}
}

type kept struct{ sandbox.Sandbox }

func (kept) Stop(context.Context) error { return nil }
