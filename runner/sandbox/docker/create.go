package docker

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

var noHealthcheck = &container.HealthConfig{Test: []string{"NONE"}}

// harden sets what holds for every container, started or not: no network, no log
// on the host's disk, no capability, nothing writable.
func (b *Backend) harden(h *container.HostConfig) {
	h.Runtime = b.Config.Runtime
	h.NetworkMode = "none"
	h.IpcMode = "none" // else there is a /dev/shm beside the disk limit
	h.LogConfig = container.LogConfig{Type: "none"}
	h.RestartPolicy = container.RestartPolicy{Name: "no"}
	h.CapDrop = []string{"ALL"}
	h.SecurityOpt = []string{object.NoNewPrivileges}
	h.ReadonlyRootfs = true
}

// create makes the container of a sandbox.
func (s *box) create(ctx context.Context, c sandbox.Config) error {
	b := s.b
	volumes, err := b.volumesOf(ctx, c.Image)
	if err != nil {
		return err
	}
	guest, err := b.guestVolume(ctx, c.Guest, c.Image)
	if err != nil {
		return err
	}
	h := &container.HostConfig{Tmpfs: map[string]string{
		sandbox.GuestDir:  object.AgentDir,
		object.CoveredDir: object.Closed,
	}}
	for _, v := range volumes {
		h.Tmpfs[v] = object.Closed // else the engine makes a volume, for anyone to fill
	}
	b.harden(h)
	h.CapAdd = object.AgentCaps
	h.Mounts = append(h.Mounts, volumeMount(guest, object.GuestDir, true))
	s.addLimits(h, c.Limits)
	if b.nested() {
		b.nest(h)
		err = s.addDisk(ctx, h, c)
	} else {
		err = s.addScratch(ctx, h, c.Limits.Disk)
	}
	if err != nil {
		return err
	}
	b.confine(h, s.engine)
	r, err := b.api.ContainerCreate(ctx, s.config(c), h, nil, nil, object.Container(b.instance, c.ID))
	if err != nil {
		return err
	}
	s.container, s.asked = r.ID, h
	return nil
}

func (s *box) config(c sandbox.Config) *container.Config {
	scratch := int64(0)
	if c.Limits.Disk > 0 && !s.b.nested() { // else this host reads it back
		scratch = object.ScratchSize(c.Limits.Disk)
	}
	return &container.Config{
		Hostname: "quavon", Image: c.Image, User: "0:0", WorkingDir: "/",
		Entrypoint: object.Command(), Env: object.Env(scratch), Healthcheck: noHealthcheck,
		AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true,
		StdinOnce: true, // the agent's stream ends with our connection
		Labels:    s.b.labels(object.RoleJob, c.ID),
	}
}

// Tasks of the host per process of a gVisor sandbox, and those that a sandbox
// needs for itself: each of its threads is a thread of the sandbox kernel and one
// of the address space it runs in. Elsewhere only the agent has any.
const (
	tasksPerProcess = 2
	ownTasks        = 50
	agentTasks      = 16
)

func (b *Backend) tasks(pids int64) int64 {
	if b.gvisor() {
		return tasksPerProcess*pids + ownTasks
	}
	return pids + agentTasks
}

func (s *box) addLimits(h *container.HostConfig, l job.Limits) {
	if l.Memory > 0 {
		h.Memory = l.Memory / pageSize * pageSize
		h.MemorySwap = h.Memory // both together: no swap
	}
	h.NanoCPUs = int64(l.CPUs * 1e9)
	if l.Pids > 0 {
		tasks := s.b.tasks(l.Pids)
		h.PidsLimit = &tasks
	}
}

const pageSize = 4096

// addScratch attaches the one writable file system: for gVisor a tmpfs of its own
// that keeps its pages in a volume of the sandbox's, elsewhere one in memory.
func (s *box) addScratch(ctx context.Context, h *container.HostConfig, disk int64) error {
	b := s.b
	size := int64(0)
	if disk > 0 {
		size = object.ScratchSize(disk)
	}
	if !b.gvisor() {
		h.Tmpfs[sandbox.ScratchDir] = object.Scratch(size) + ",exec"
		return nil
	}
	v, err := b.api.VolumeCreate(ctx, volume.CreateOptions{
		Name: object.ScratchVolume(b.instance, s.slot.ID), Driver: "local", Labels: b.labels(object.RoleScratch, s.slot.ID),
	})
	if err != nil {
		return fmt.Errorf("make the scratch volume: %w", err)
	}
	h.Mounts = append(h.Mounts, volumeMount(v.Name, sandbox.ScratchDir, false))
	h.Annotations = object.Annotations(v.Mountpoint, size)
	return nil
}

// confine adds what depends on the engine.
func (b *Backend) confine(h *container.HostConfig, e *engine) {
	if e.selinux {
		h.SecurityOpt = append(h.SecurityOpt, "label=disable") // gVisor doesn't know it
	}
	if b.Config.Name == Runc {
		h.SecurityOpt = append(h.SecurityOpt, "apparmor=unconfined") // the agent has to mount
	}
}

// volumesOf are the places at which an image wants volumes. Only images that were
// found before can be used.
func (b *Backend) volumesOf(ctx context.Context, id string) ([]string, error) {
	b.mu.Lock()
	for _, f := range b.images {
		if f.ID == id {
			b.mu.Unlock()
			return f.volumes, nil
		}
	}
	b.mu.Unlock()
	f, err := b.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return f.volumes, nil
}
