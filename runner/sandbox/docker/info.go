package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/docker/docker/api/types/container"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// Info implements sandbox.Sandbox. It reads the container's configuration back from
// the engine, and the limits from the kernel by way of the engine's statistics,
// since a runtime may ignore what it was told. What differs from what was asked for
// is an error, and the sandbox is ended. That the disk limit holds was checked by
// the agent, which would not have started otherwise.
func (s *box) Info(ctx context.Context) (job.SandboxInfo, error) {
	info := job.SandboxInfo{
		Backend: s.b.Name(), Runtime: s.b.runtimeName(s.engine), Platform: s.platform(),
		Limits: job.Limits{Disk: s.limits.Disk, Output: s.limits.Output, Wall: s.limits.Wall},
	}
	ctx, cancel := s.b.inTime(ctx)
	defer cancel()
	if err := s.readBack(ctx, &info.Limits); err != nil {
		err = fault.Wrap(err, "verify the sandbox's limits", "check the runtime's flags: `docker info` shows them").
			WithCode(string(job.ReasonSandboxUnavailable))
		return info, errors.Join(err, s.Stop(ctx))
	}
	return info, nil
}

func (s *box) platform() string {
	if s.b.gvisor() {
		return s.engine.platform()
	}
	return ""
}

func (s *box) readBack(ctx context.Context, got *job.Limits) error {
	r, err := s.b.api.ContainerInspect(ctx, s.container)
	if err != nil {
		return err
	}
	if r.ContainerJSONBase == nil || r.HostConfig == nil || r.State == nil || !r.State.Running {
		return errors.New("the container is not running")
	}
	if err := differs(s.asked, r.HostConfig); err != nil {
		return err
	}
	if s.b.nested() {
		if err := s.checkDisk(); err != nil {
			return err
		}
	}
	st, err := s.stats(ctx)
	if err != nil {
		return err
	}
	if m := s.asked.Memory; m > 0 && st.MemoryStats.Limit != uint64(m) {
		return fmt.Errorf("the kernel's memory limit is %d instead of %d", st.MemoryStats.Limit, m)
	}
	if p := s.asked.PidsLimit; p != nil && st.PidsStats.Limit != uint64(*p) {
		return fmt.Errorf("the kernel's process limit is %d instead of %d", st.PidsStats.Limit, *p)
	}
	got.Memory, got.CPUs = r.HostConfig.Memory, float64(r.HostConfig.NanoCPUs)/1e9
	if p := r.HostConfig.PidsLimit; p != nil && *p > 0 {
		got.Pids = s.b.processes(*p)
	}
	return nil
}

// processes is the reverse of tasks.
func (b *Backend) processes(tasks int64) int64 {
	if b.gvisor() {
		return (tasks - ownTasks) / tasksPerProcess
	}
	return tasks - agentTasks
}

// maxStats bounds the engine's answer.
const maxStats = 1 << 20

// stats are the container's now.
func (s *box) stats(ctx context.Context) (*container.StatsResponse, error) {
	r, err := s.b.api.ContainerStatsOneShot(ctx, s.container)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var st container.StatsResponse
	return &st, json.NewDecoder(io.LimitReader(r.Body, maxStats)).Decode(&st)
}

// differs compares a container's configuration with the one asked for.
func differs(want, have *container.HostConfig) error {
	for _, c := range []struct {
		what string
		same bool
	}{
		{"runtime", want.Runtime == have.Runtime},
		{"network", want.NetworkMode == have.NetworkMode},
		{"privileges", want.Privileged == have.Privileged},
		{"read-only root", want.ReadonlyRootfs == have.ReadonlyRootfs},
		{"capabilities", slices.Equal(capabilities(want.CapAdd), capabilities(have.CapAdd)) &&
			slices.Equal(capabilities(want.CapDrop), capabilities(have.CapDrop))},
		// The engine adds label=disable to privileged containers.
		{"security options", slices.Equal(want.SecurityOpt, have.SecurityOpt) ||
			want.Privileged && slices.Equal(append(slices.Clone(want.SecurityOpt), "label=disable"), have.SecurityOpt)},
		{"annotations", maps.Equal(want.Annotations, have.Annotations)},
		{"file systems in memory", maps.Equal(want.Tmpfs, have.Tmpfs)},
		{"binds", len(have.Binds) == 0 && len(have.Devices) == 0 && len(have.VolumesFrom) == 0},
		{"memory", want.Memory == have.Memory && want.MemorySwap == have.MemorySwap},
		{"processors", want.NanoCPUs == have.NanoCPUs},
		{"processes", value(want.PidsLimit) == value(have.PidsLimit)},
	} {
		if !c.same {
			return fmt.Errorf("the engine made the container with other %s than asked for", c.what)
		}
	}
	return nil
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func capabilities(list []string) []string {
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, object.Normal(c))
	}
	slices.Sort(out)
	return out
}
