package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/task"
	"github.com/quavon/quavon/runner/workspace"
)

// Log is where a job's output goes while it runs. All fields may be nil.
type Log struct {
	Stdout, Stderr io.Writer
	// Note gets what isn't the job's own: which step begins, that it was begun
	// again, that output was cut.
	Note func(string)
}

func (l Log) frame(f queue.Frame) error {
	var err error
	switch f.Kind {
	case queue.Stdout:
		err = write(l.Stdout, f.Data)
	case queue.Stderr:
		err = write(l.Stderr, f.Data)
	case queue.Note:
		l.note(string(f.Data))
	case queue.Cut:
		l.note("the log is full: what the job prints from here on is lost")
	case queue.Restart:
		l.note(fmt.Sprintf("the runner was lost: attempt %d begins anew", f.Attempt))
	}
	return err
}

func write(w io.Writer, p []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(p)
	return err
}

func (l Log) note(s string) {
	if l.Note != nil {
		l.Note(s)
	}
}

// Result is what became of a job.
type Result struct {
	task.Report
	// Runner and Attempt say whose word it is; "" is the queue's: no runner ran the
	// job to its end.
	Runner  string `json:"runner,omitempty"`
	Attempt uint32 `json:"attempt,omitempty"`
	// LogComplete says that the log was followed to its end.
	LogComplete bool `json:"log_complete"`

	outcome queue.Outcome
	ticket  *queue.Ticket
}

// Wait waits for the job's end, and gives its log to follow meanwhile. An error says
// that the end isn't known; a job that failed or was never run is a Result. ctx ends
// waiting, not the job.
func (t *Ticket) Wait(ctx context.Context, log Log) (*Result, error) {
	o, err := t.t.Wait(ctx, t.resume(log.frame))
	if err != nil {
		return nil, err
	}
	r := &Result{Runner: o.Runner, Attempt: o.Attempt, LogComplete: o.LogComplete, outcome: o, ticket: t.t}
	if o.Payload == nil {
		r.Result = job.Result{ID: t.ID(), Reason: o.Reason, Message: verdicts[o.Reason], Exit: -1}
		return r, nil
	}
	r.Report, err = task.DecodeReport(o.Payload)
	if err == nil && (r.ID != t.ID() || r.Reason != o.Reason) {
		err = fault.New("the result contradicts itself", "give submitter and runner the same version of quavon").
			WithCode(string(job.ReasonInternal))
	}
	return r, err
}

// resume leaves out frames that were handed on already.
func (t *Ticket) resume(to func(queue.Frame) error) func(queue.Frame) error {
	seen := 0
	return func(f queue.Frame) error {
		if f.Kind == queue.Restart {
			return nil // told by the number of the attempt
		}
		if f.Attempt > t.attempt {
			again := t.frames > 0
			t.attempt, t.frames, seen = f.Attempt, 0, 0
			if again {
				if err := to(queue.Frame{Attempt: f.Attempt, Kind: queue.Restart}); err != nil {
					return err
				}
			}
		}
		if seen++; seen <= t.frames {
			return nil
		}
		t.frames++
		return to(f)
	}
}

// verdicts explain the ends of jobs that no runner ran to its end.
var verdicts = map[job.Reason]string{
	job.ReasonCancelled:      "the job was cancelled before it had a runner",
	job.ReasonExpired:        "no runner took the job in time",
	job.ReasonOutcomeUnknown: "too many runners were lost with the job",
	job.ReasonRejected:       "a runner refused the job",
	job.ReasonRunnerLost:     "the runner was lost",
}

// Has says whether the result came with a patch or with artefacts, by their names in
// package task.
func (r *Result) Has(name string) bool {
	_, ok := r.file(name)
	return ok
}

func (r *Result) file(name string) (queue.File, bool) {
	for _, f := range r.outcome.Files {
		if f.Name == name {
			return f, true
		}
	}
	return queue.File{}, false
}

var errNone = errors.New("the result has none")

func (r *Result) open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, ok := r.file(name)
	if !ok {
		return nil, fault.Wrap(errNone, "fetch the job's "+name, "ask for it when the job is submitted")
	}
	return r.ticket.Download(ctx, r.outcome, f)
}

// Patch writes what the job changed in its workspace, for git apply.
func (r *Result) Patch(ctx context.Context, w io.Writer) error {
	in, err := r.open(ctx, task.FilePatch)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err = io.Copy(w, in); err != nil {
		return fault.Wrap(err, "fetch the job's patch", "results are kept for a while only: fetch it sooner")
	}
	return nil
}

// Bounds of artefacts.
const (
	maxArtefacts       = 64 << 30
	maxArtefactEntries = 1 << 20
)

// Artefacts unpacks the files that the job handed back below a directory. They are
// hostile: what would leave the directory is left out.
func (r *Result) Artefacts(ctx context.Context, dir string) (workspace.Collected, error) {
	in, err := r.open(ctx, task.FileArtefacts)
	if err != nil {
		return workspace.Collected{}, err
	}
	defer in.Close()
	return workspace.Collect(ctx, in, dir, workspace.Limits{Bytes: maxArtefacts, Entries: maxArtefactEntries})
}
