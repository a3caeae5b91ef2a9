package runsc

import (
	"context"
	"fmt"
	"slices"

	"github.com/quavon/quavon/runner/sandbox"
)

var _ sandbox.Located = (*Backend)(nil)

// Processes implements sandbox.Located.
func (b *Backend) Processes(_ context.Context, id string) ([]int, error) {
	own, err := leftovers(b.state.Path("sandboxes", id, runtimeRoot))
	if err != nil {
		return nil, err
	}
	if own == nil {
		return nil, fmt.Errorf("no process belongs to the sandbox %s", id)
	}
	var all []int
	for _, pid := range own {
		more, err := descendants(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Binary is the host path of the runtime.
func (b *Backend) Binary() string { return b.binary }
