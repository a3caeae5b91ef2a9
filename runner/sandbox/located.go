package sandbox

import (
	"context"
	"errors"
)

// ErrElsewhere says that a sandbox's processes aren't among those of this process's
// host, as when the engine is outside of the container that this runs in.
var ErrElsewhere = errors.New("the sandbox's processes can't be seen from here")

// Located is a backend that knows the host's processes of its sandboxes, for those
// who look at a sandbox from outside.
type Located interface {
	Backend
	// Processes lists them by the id of a live sandbox, in no order. The error may be
	// ErrElsewhere.
	Processes(ctx context.Context, id string) ([]int, error)
}

// AsLocated returns the backend that b is or wraps and that knows its sandboxes'
// processes, nil when there is none.
func AsLocated(b Backend) Located {
	for {
		if l, ok := b.(Located); ok {
			return l
		}
		w, ok := b.(interface{ Unwrap() Backend })
		if !ok {
			return nil
		}
		b = w.Unwrap()
	}
}
