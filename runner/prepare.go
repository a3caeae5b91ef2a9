package runner

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/toolchain"
)

// prepare checks the job and makes the root it will see.
func (j *run) prepare(ctx context.Context) (err error) {
	if err := j.spec.Validate(); err != nil {
		return err
	}
	if err := sandbox.Admit(j.runner.Backend, j.spec); err != nil {
		return err
	}
	if err := j.checkDoor(); err != nil {
		return err
	}
	if err := j.findMasks(ctx); err != nil {
		return err
	}
	if j.detached != nil && j.spec.Root.Kind == job.RootImage {
		j.root, err = openDetached(ctx, j.detached, j.spec.Root)
		return err
	}
	if j.spec.Root.Kind == job.RootImage {
		j.root, err = openImage(ctx, j.runner.Images, j.spec.Root)
		return err
	}
	var targets []string
	for _, m := range j.spec.Mounts {
		if !j.belowDir(m.Target) {
			targets = append(targets, m.Target)
		}
	}
	if len(j.spec.Secrets) > 0 {
		targets = append(targets, trustDir)
	}
	j.root, err = openHost(j.runner.Store, targets)
	return err
}

func (j *run) release() { _ = j.root.Close() } // a lock, nothing to flush

// writableDirs are the job's own places, besides the workspace and caches.
var writableDirs = []agent.Dir{
	{Path: "/tmp", Mode: fs.ModeSticky | 0o777},
	{Path: "/var/tmp", Mode: fs.ModeSticky | 0o777},
	{Path: "/dev/shm", Mode: fs.ModeSticky | 0o777},
	{Path: toolchain.Home, Mode: 0o700, UID: sandbox.JobUID, GID: sandbox.JobUID},
}

// belowDir says whether a target lies in one of the job's own places, where the
// agent makes it.
func (j *run) belowDir(target string) bool {
	for _, d := range writableDirs {
		if job.Within(target, d.Path) {
			return true
		}
	}
	return false
}

// config is what the backend needs to know of the job.
func (j *run) config() sandbox.Config {
	c := sandbox.Config{
		ID:     j.spec.ID,
		Mounts: j.spec.Mounts,
		Limits: j.spec.Limits,
		Guest:  j.runner.Guest,
	}
	j.root.config(&c)
	return c
}

// view is what the agent has to arrange; it numbers the overlays for diffs.
func (j *run) view() agent.Setup {
	var s agent.Setup
	j.root.setup(&s)
	if len(j.spec.Secrets) > 0 {
		s.Dirs = append(slices.Clip(s.Dirs), agent.Dir{Path: trustDir, Mode: 0o755})
	}
	for i, m := range j.spec.Mounts {
		lower := fmt.Sprintf("%s/%d", sandbox.LowerDir, i)
		if m.Mode == job.MountReadOnly {
			s.Binds = append(s.Binds, agent.Bind{Source: lower, Target: m.Target})
			continue
		}
		j.overlays[m.Target] = len(s.Overlays)
		o := agent.Overlay{Lower: lower, Target: m.Target, Protect: m.Protect}
		if m.Target == job.WorkspaceDir {
			o.Mask = j.masks
		}
		s.Overlays = append(s.Overlays, o)
	}
	return s
}
