package commands

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
)

// handback takes what a job leaves to where the operator wants it. Nothing is
// written to the workspace or a cache before the sandbox is gone.
type handback struct {
	o    *runOptions
	spec job.Spec
	// since is when the job began: later changes on the host are not overwritten.
	since time.Time
	// shown are the mounts' directories at that time, by source.
	shown map[string]fs.FileInfo
	diffs map[string]*workspace.Diff
}

func newHandback(o *runOptions, spec job.Spec) *handback {
	spec.Secrets = nil // the runner forgets them before this ends
	h := &handback{o: o, spec: spec, since: time.Now(), shown: map[string]fs.FileInfo{}, diffs: map[string]*workspace.Diff{}}
	for _, m := range spec.Mounts {
		if fi, err := os.Stat(m.Source); err == nil { // else the backend says so
			h.shown[m.Source] = fi
		}
	}
	return h
}

func (h *handback) close() {
	for _, d := range h.diffs {
		_ = d.Close() // an unlinked spool file: nothing to lose
	}
}

// changed says which mounts' changes are wanted, with their content.
func (h *handback) changed() map[string]func(*workspace.Diff) {
	want := map[string]func(*workspace.Diff){}
	for _, m := range h.spec.Mounts {
		wanted := h.o.CacheMode == "keep"
		if m.Target == job.WorkspaceDir {
			wanted = h.spec.Changes == job.ChangesContent
		}
		if m.Mode != job.MountOverlay || !wanted {
			continue
		}
		want[m.Target] = func(d *workspace.Diff) { h.diffs[m.Target] = d }
	}
	return want
}

// collected unpacks the files that match --collect into --out.
func (h *handback) collected(ctx context.Context, r io.Reader) error {
	limits := workspace.Limits{Bytes: collectBytes, Entries: collectEntries}
	if h.spec.Limits.Disk > 0 {
		limits.Bytes = h.spec.Limits.Disk
	}
	got, err := workspace.Collect(ctx, r, h.o.Out, limits)
	h.tell("--collect", got.Skipped)
	return err
}

const (
	collectBytes   = 64 << 30
	collectEntries = 1 << 20
)

// deliver writes the patch, the workspace and the caches.
func (h *handback) deliver(ctx context.Context, res job.Result) error {
	// The job is over and its outcome known: an interrupt must not lose it.
	ctx = context.WithoutCancel(ctx)
	for _, m := range h.spec.Mounts {
		diff := h.diffs[m.Target]
		if diff == nil {
			continue
		}
		base := workspace.Base{Dir: m.Source, Shown: h.shown[m.Source], Since: h.since, Protect: m.Protect}
		var err error
		if m.Target == job.WorkspaceDir {
			err = h.workspace(ctx, res, diff, base)
		} else {
			err = h.cache(ctx, res, diff, base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *handback) workspace(ctx context.Context, res job.Result, diff *workspace.Diff, base workspace.Base) error {
	if h.o.Patch != "" {
		write := func() ([]workspace.Skip, error) { return diff.PatchFile(ctx, h.o.Patch, base) }
		if h.o.Patch == "-" {
			write = func() ([]workspace.Skip, error) { return diff.Patch(ctx, h.o.IO.Out, base) }
		}
		skipped, err := write()
		h.tell("--patch", skipped)
		if err != nil {
			return err
		}
	}
	if !h.o.Write {
		return nil
	}
	if res.Reason != job.ReasonNone {
		h.o.say("nothing was written to the workspace, since the job did not end by itself", "")
		return nil
	}
	report, err := diff.WriteBack(ctx, base, false)
	h.tell("--write", report.Skipped)
	return err
}

// cache keeps what a successful job added to a cache.
func (h *handback) cache(ctx context.Context, res job.Result, diff *workspace.Diff, base workspace.Base) error {
	if res.Reason != job.ReasonNone || res.Exit != 0 {
		h.o.Log.Info("cache not kept: the job failed", "dir", base.Dir)
		return nil
	}
	report, err := diff.WriteBack(ctx, base, true)
	for _, s := range report.Skipped {
		h.o.Log.Info("not kept in the cache", "dir", base.Dir, "path", s.Path, "why", s.Why)
	}
	return err
}

// tell names what was left out; a few paths are enough for a person.
func (h *handback) tell(what string, skipped []workspace.Skip) {
	const most = 10
	for i, s := range skipped {
		if i == most {
			h.o.say(fmt.Sprintf("%s left out %d more paths", what, len(skipped)-most), "")
			return
		}
		h.o.say(fmt.Sprintf("%s left out %q: it %s", what, s.Path, s.Why), "")
	}
}
