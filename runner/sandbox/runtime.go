package sandbox

import "context"

// Runtime is the program that isolates, as it is now. Evidence from tests of a
// sandbox holds for this very program with these arguments only.
type Runtime struct {
	// Version is the runtime's own word, such as "gvisor v0.0.0-2026…".
	Version string
	// Digest is "sha256:…" of the binary, or of what stands for it where it can't
	// be read.
	Digest string
	// Args are what it is always started with.
	Args     []string
	Platform string
}

// Identified is a backend that says what its runtime is.
type Identified interface {
	Backend
	Runtime(ctx context.Context) (Runtime, error)
}

// AsIdentified returns the backend that b is or wraps and that can say what its
// runtime is, nil when there is none.
func AsIdentified(b Backend) Identified {
	for {
		if i, ok := b.(Identified); ok {
			return i
		}
		w, ok := b.(interface{ Unwrap() Backend })
		if !ok {
			return nil
		}
		b = w.Unwrap()
	}
}
