package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/pause"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
	"github.com/quavon/quavon/runner/state"
)

// Stop implements sandbox.Sandbox. When the engine can't remove the container the
// slot stays taken: the lock is kept, and another Stop tries again.
func (s *box) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	select {
	case <-s.done:
	default:
		s.killed.Store(true)
	}
	if err := s.b.dispose(ctx, s.slot); err != nil {
		return err
	}
	<-s.done // The engine ends the wait with the container.
	s.unwatch(errors.New("the sandbox was stopped"))
	_ = s.conn.Close()
	s.stopped = true
	return nil
}

// dispose ends and removes what the engine has of a sandbox, then its slot. It
// works with a cancelled context.
func (b *Backend) dispose(ctx context.Context, slot *state.Slot) error {
	ctx, cancel := b.inTime(context.WithoutCancel(ctx))
	defer cancel()
	err := b.removeContainer(ctx, object.Container(b.instance, slot.ID))
	if err == nil && b.gvisor() {
		err = b.removeVolume(ctx, object.ScratchVolume(b.instance, slot.ID))
	}
	if err == nil && b.nested() {
		err = unmountDisk(slot.Path(diskDir))
	}
	if err != nil {
		return fault.Wrap(err, "stop sandbox "+slot.ID,
			"its slot stays taken; see `docker ps -a` for what hangs, then start again to reap it").
			WithCode(string(job.ReasonInternal))
	}
	return slot.Remove(ctx)
}

func (b *Backend) removeContainer(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	for {
		err := b.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsConflict(err) || pause.For(ctx, pauseTime) != nil: // someone else removes it
			return fmt.Errorf("remove the container: %w", err)
		}
	}
}

func (b *Backend) removeVolume(ctx context.Context, name string) error {
	for {
		err := b.api.VolumeRemove(ctx, name, false)
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsConflict(err) || pause.For(ctx, pauseTime) != nil:
			return fmt.Errorf("remove the scratch volume: %w", err)
		}
	}
}

// Reap implements sandbox.Backend.
func (b *Backend) Reap(ctx context.Context) ([]string, error) {
	slots, err := b.State.List()
	if err != nil {
		return nil, err
	}
	left, err := b.listed(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range slots {
		left[id] = nil // Its slot says whether it lives.
	}
	var reaped []string
	var errs []error
	for id, names := range left {
		done, err := b.reap(ctx, id, names)
		errs = append(errs, err)
		if done && !strings.HasPrefix(id, helperPrefix) {
			reaped = append(reaped, id)
		}
	}
	return reaped, errors.Join(errs...)
}

// reap removes one sandbox that nobody owns. names are the engine's containers of a
// sandbox that has no slot.
func (b *Backend) reap(ctx context.Context, id string, names []string) (bool, error) {
	slot, err := b.State.Claim(ctx, b.Name(), id)
	if errors.Is(err, state.ErrInUse) {
		return false, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return names != nil, b.reapObjects(ctx, id, names)
	}
	if err != nil {
		return false, err
	}
	if young(slot) && !b.exists(ctx, object.Container(b.instance, id)) {
		return false, slot.Release()
	}
	if err := b.dispose(ctx, slot); err != nil {
		return false, errors.Join(err, slot.Release())
	}
	return true, nil
}

// settled is how old a slot without a container has to be: the engine finishes what
// a dead client has asked it to make.
const settled = 2 * time.Second

func (b *Backend) exists(ctx context.Context, name string) bool {
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	_, err := b.api.ContainerInspect(ctx, name)
	return err == nil
}

func young(slot *state.Slot) bool {
	fi, err := os.Stat(slot.Path())
	return err == nil && time.Since(fi.ModTime()) < settled
}

// reapObjects removes the containers and the volume of a sandbox whose slot is
// gone: by the containers' own ids, since a new sandbox may have the name by now.
func (b *Backend) reapObjects(ctx context.Context, id string, names []string) error {
	if names == nil {
		return nil // Another backend's slot.
	}
	if _, err := os.Stat(b.State.Path("sandboxes", id)); err == nil {
		return nil
	}
	for _, c := range names {
		if err := b.removeContainer(ctx, c); err != nil {
			return err
		}
	}
	return b.removeVolume(ctx, object.ScratchVolume(b.instance, id))
}

// listed are the engine's containers of this instance and backend, by sandbox; a
// sandbox of which only the volume is left has none.
func (b *Backend) listed(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	ours := filters.NewArgs(
		filters.Arg("label", object.LabelInstance+"="+b.instance),
		filters.Arg("label", object.LabelBackend+"="+b.Name()),
	)
	found := map[string][]string{}
	volumes, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return nil, b.unreachable(err)
	}
	for _, v := range volumes.Volumes {
		if v != nil && job.ValidID(v.Labels[object.LabelSandbox]) {
			found[v.Labels[object.LabelSandbox]] = []string{}
		}
	}
	list, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, b.unreachable(err)
	}
	for _, c := range list {
		if id := c.Labels[object.LabelSandbox]; job.ValidID(id) {
			found[id] = append(found[id], c.ID)
		}
	}
	return found, nil
}

// pauseTime is between two tries of what someone else is at.
const pauseTime = 50 * time.Millisecond
