package docker

import (
	"context"
	"errors"

	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

var _ sandbox.Located = (*Backend)(nil)

// Processes implements sandbox.Located. The number is the engine's: it means
// something only where the engine is on this host.
func (b *Backend) Processes(ctx context.Context, id string) ([]int, error) {
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	r, err := b.api.ContainerInspect(ctx, object.Container(b.instance, id))
	if err != nil {
		return nil, err
	}
	if r.ContainerJSONBase == nil || r.State == nil || r.State.Pid <= 0 {
		return nil, errors.New("the engine tells no process of the container")
	}
	return []int{r.State.Pid}, nil
}
