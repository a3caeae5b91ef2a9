package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

var _ sandbox.Located = (*Backend)(nil)

// Processes implements sandbox.Located. The number is the engine's: on this side of
// the socket another process may have it, or none.
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
	if !isOf(r.State.Pid, r.ID) {
		return nil, sandbox.ErrElsewhere
	}
	return []int{r.State.Pid}, nil
}

// isOf says whether a process of this host is a container's: gVisor's kernel has the
// id among its arguments, any other process is in a control group of that name.
func isOf(pid int, id string) bool {
	for _, name := range []string{"cmdline", "cgroup"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err == nil && bytes.Contains(data, []byte(id)) {
			return true
		}
	}
	return false
}
