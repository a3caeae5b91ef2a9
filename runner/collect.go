package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
)

// Bounds of what a job may hand back when its disk limit doesn't bound it.
const (
	maxHandback = 64 << 30
	maxEntries  = 1 << 20
)

// wantsFiles says whether anything is to be read back after the steps.
func (j *run) wantsFiles() bool {
	return len(j.spec.Collect) > 0 || j.spec.Changes != job.ChangesNone || len(j.streams.Changed) > 0
}

// canCollect says whether the sandbox is still there to be asked: a job that ran
// too long or said too much may still have left its reports.
func (j *run) canCollect() bool {
	return slices.Contains([]job.Reason{job.ReasonNone, job.ReasonTimeoutWall, job.ReasonLimitOutput}, j.result.Reason)
}

// collect hands back files and changes, once nothing of the job runs any more.
func (j *run) collect(parent context.Context) error {
	ctx, cancel := context.WithTimeoutCause(parent, collectTimeout, errSilent)
	defer cancel()
	err := j.killAll(ctx)
	if err == nil {
		err = j.files(ctx)
	}
	for _, target := range slices.Sorted(maps.Keys(j.overlays)) {
		if err == nil {
			err = j.changes(ctx, target)
		}
	}
	switch {
	case err == nil:
		return nil
	case parent.Err() != nil:
		j.endFor(context.Cause(parent))
		return nil
	}
	return j.goneWhileCollecting(err)
}

// goneWhileCollecting tells a sandbox that ended from a request that failed.
func (j *run) goneWhileCollecting(err error) error {
	select {
	case <-j.client.Done():
		return j.lost(err)
	default:
	}
	return &fault.Error{
		What: "can't hand back the job's files", Err: err,
		Hint: cmp.Or(fault.Hint(err), "ask for fewer files: a pattern that is narrower, or a job that leaves less behind"),
		Code: cmp.Or(fault.Code(err), string(job.ReasonInternal)),
	}
}

func (j *run) files(ctx context.Context) error {
	if len(j.spec.Collect) == 0 || j.streams.Collected == nil {
		return nil
	}
	request := agent.GetRequest{
		Dir: j.dir(job.Step{}), Globs: j.spec.Collect, MaxBytes: j.maxBytes(), MaxEntries: maxEntries,
	}
	return through(
		func(w io.Writer) error { return j.client.Get(ctx, request, w) },
		func(r io.Reader) error { return j.streams.Collected(ctx, r) },
	)
}

// changes hands back what the job changed in one overlay; the workspace's are
// also listed in the result.
func (j *run) changes(ctx context.Context, target string) error {
	give := j.streams.Changed[target]
	listed := target == job.WorkspaceDir && j.spec.Changes != job.ChangesNone
	if give == nil && !listed {
		return nil
	}
	request := agent.DiffRequest{
		Overlay: j.overlays[target], Content: give != nil, MaxBytes: j.maxBytes(), MaxEntries: maxEntries,
	}
	spool := ""
	if give != nil {
		spool = j.runner.Spool
	}
	var diff *workspace.Diff
	err := through(
		func(w io.Writer) error { return j.client.Diff(ctx, request, w) },
		func(r io.Reader) (err error) {
			diff, err = workspace.Read(ctx, r, spool, workspace.Limits{Bytes: request.MaxBytes, Entries: maxEntries})
			return err
		},
	)
	if err != nil {
		if diff != nil {
			err = errors.Join(err, diff.Close())
		}
		return fmt.Errorf("changes of %s: %w", target, err)
	}
	if listed {
		j.result.Changes = diff.Changes()
	}
	if give == nil {
		return diff.Close()
	}
	give(diff)
	return nil
}

func (j *run) maxBytes() int64 {
	if j.spec.Limits.Disk > 0 {
		return j.spec.Limits.Disk
	}
	return maxHandback
}
