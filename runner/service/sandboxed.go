package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/task"
	"github.com/quavon/quavon/runner/workspace"
)

// maxEntries bounds the files of a snapshot.
const maxEntries = 1 << 20

// workspaceDir is where the job's snapshot is unpacked.
func (a *attempt) workspaceDir() string { return filepath.Join(a.dir, "workspace") }

// fetch unpacks the job's snapshot.
func (a *attempt) fetch(ctx context.Context) error {
	if !a.task.Workspace {
		return nil
	}
	if err := os.Mkdir(a.workspaceDir(), 0o755); err != nil { //nolint:gosec // the job must see it
		return unavailable(err)
	}
	r, err := a.claim.Snapshot(ctx)
	if err != nil {
		return refused(err)
	}
	if r == nil {
		return fault.New("the job came without its workspace", "send one with it").WithCode(string(job.ReasonRejected))
	}
	defer r.Close()
	_, err = workspace.Unpack(ctx, r, a.workspaceDir(), workspace.Limits{Bytes: a.s.Bounds.snapshot(), Entries: maxEntries})
	if err == nil {
		_, err = io.Copy(io.Discard, r) // the end, so that nothing can be missing
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return refused(err)
}

// refused gives an error of the job's own files a reason.
func refused(err error) error {
	if err == nil || fault.Code(err) != "" {
		return err
	}
	return fault.Wrap(err, "fetch the workspace", "send the job again").WithCode(string(job.ReasonRejected))
}

// inSandbox runs the job and takes what it leaves.
func (a *attempt) inSandbox(ctx context.Context) error {
	sending, stop := lastWords(ctx) // a cancelled job's last output arrives too
	a.stop = stop
	log := &stepLog{out: a.claim.Output(sending), steps: a.task.Spec.Steps}
	spec := a.task.ForWorkspace(a.workspaceDir())
	spec.ID = sandboxID(a.claim)
	a.task.Spec.Secrets = nil // the runner forgets its own with the last step that uses them
	if a.task.Outbox != nil {
		spec.Collect = append(spec.Collect[:len(spec.Collect):len(spec.Collect)], a.task.Outbox.Path)
	}
	streams := runner.Streams{
		Stdout: log.writer(queue.Stdout), Stderr: log.writer(queue.Stderr), Step: log.step, Hurry: a.s.Hurry,
		Collected: a.collected,
	}
	var diff *workspace.Diff
	if spec.Changes == job.ChangesContent {
		streams.Changed = map[string]func(*workspace.Diff){job.WorkspaceDir: func(d *workspace.Diff) { diff = d }}
	}
	began := time.Now()
	a.began = true
	res, err := a.s.Runner.Run(ctx, spec, streams)
	a.report.Result = res
	a.report.ID = a.claim.ID
	if o := a.task.Outbox; o != nil {
		a.report.Changes = slices.DeleteFunc(a.report.Changes, func(c job.Change) bool { return c.Path == o.Path })
	}
	if diff != nil {
		defer diff.Close()
	}
	if err != nil || diff == nil {
		return err
	}
	return a.patch(ctx, diff, began)
}

// sandboxID names an attempt's sandbox: the one of an earlier attempt may still be on
// this host, because its runner was killed or stands still.
func sandboxID(c *queue.Claim) string {
	const longest = 64
	suffix := "-" + strconv.FormatUint(uint64(c.Attempt), 10)
	return c.ID[:min(len(c.ID), longest-len(suffix))] + suffix
}

// patch stores the workspace's changes. The outbox is none of them.
func (a *attempt) patch(ctx context.Context, diff *workspace.Diff, began time.Time) error {
	if o := a.task.Outbox; o != nil {
		diff.Leave(o.Path)
	}
	base := workspace.Base{Dir: a.workspaceDir(), Since: began, RepoPath: &a.task.RepoPath}
	written := make(chan []workspace.Skip, 1)
	err := a.upload(ctx, task.FilePatch, a.s.Bounds.patch(), func(w io.Writer) error {
		skipped, err := diff.Patch(ctx, w, base)
		written <- skipped
		return err
	})
	a.report.PatchSkipped = <-written // the files are removed next, also when nobody takes the patch
	return err
}

// upload stores a file of the result, at most limit bytes of it, as it is written.
func (a *attempt) upload(ctx context.Context, name string, limit int64, write func(io.Writer) error) error {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(write(&bounded{w, name, limit})) }() // a pipe's writer never fails to close
	f, err := a.claim.Upload(ctx, name, r)
	_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // ends the writer
	if err != nil {
		return fault.Wrap(err, "hand back the "+name, fault.Hint(err))
	}
	a.files = append(a.files, f)
	return nil
}

// bounded is a file of a result that may not grow without end.
type bounded struct {
	w    io.Writer
	name string
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fault.New(fmt.Sprintf("the job's %s is larger than this runner hands back", b.name),
			"leave less behind, or let the runner's operator raise the bound").WithCode(string(job.ReasonLimitOutput))
	}
	return b.w.Write(p)
}

// stepLog sends a job's output, and which step it is of. What can't be sent is
// dropped: the job goes on while its lease holds, and its submitter sees that the log
// isn't complete.
type stepLog struct {
	out   *queue.Output
	steps []job.Step
	now   atomic.Int32
}

// step notes that a step begins, when there are several.
func (l *stepLog) step(i int) {
	l.now.Store(int32(i)) //nolint:gosec // 256 steps at most
	if len(l.steps) < 2 {
		return
	}
	name := l.steps[i].Name
	if name == "" {
		name = strings.Join(l.steps[i].Argv, " ")
	}
	fmt.Fprintf(l.out.Writer(queue.Note, i), "step %d of %d: %.200s", i+1, len(l.steps), name)
}

func (l *stepLog) writer(kind queue.FrameKind) io.Writer { return logWriter{l, kind} }

type logWriter struct {
	l    *stepLog
	kind queue.FrameKind
}

func (w logWriter) Write(p []byte) (int, error) {
	_, _ = w.l.out.Writer(w.kind, int(w.l.now.Load())).Write(p) // see stepLog
	return len(p), nil
}
