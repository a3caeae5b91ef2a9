// Package pause waits for a time, or for the end of who waits.
package pause

import (
	"context"
	"time"
)

// For waits for d. It ends before, with the context's cause, when the context does.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
