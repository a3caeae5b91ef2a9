package pause_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/pause"
)

func TestFor(t *testing.T) {
	t.Parallel()
	if err := pause.For(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := pause.For(ctx, time.Hour); !errors.Is(err, why) {
		t.Error(err)
	}
}
