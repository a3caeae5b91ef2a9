package queue

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Status is how the queue stands.
type Status struct {
	// WaitingInteractive, WaitingBatch and Running count jobs.
	WaitingInteractive int64 `json:"waiting_interactive"`
	WaitingBatch       int64 `json:"waiting_batch"`
	Running            int64 `json:"running"`
	// Jobs are the running ones, at most 1000.
	Jobs []RunningJob `json:"jobs"`
}

// RunningJob is a job that a runner has. What is here isn't sealed: it is for people.
type RunningJob struct {
	ID       string    `json:"id"`
	Attempt  uint32    `json:"attempt"`
	Runner   string    `json:"runner"`
	Tenant   string    `json:"tenant"`
	Priority Priority  `json:"priority"`
	Class    string    `json:"class"`
	Since    time.Time `json:"since"`
}

// Status looks at the queue.
func (q *Queue) Status(ctx context.Context) (Status, error) {
	m, err := q.run(ctx, "look at the queue", statsScript)
	if err != nil {
		return Status{}, err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) < 3 {
		return Status{}, errAnswer
	}
	var s Status
	for i, n := range []*int64{&s.WaitingInteractive, &s.WaitingBatch, &s.Running} {
		if *n, err = parts[i].AsInt64(); err != nil {
			return Status{}, errAnswer
		}
	}
	for _, p := range parts[3:] {
		j, err := runningJob(p)
		if err != nil {
			return Status{}, err
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s, nil
}

func runningJob(m valkey.ValkeyMessage) (RunningJob, error) {
	v, err := texts(m)
	if err != nil || len(v) != 7 {
		return RunningJob{}, errAnswer
	}
	attempt, err1 := strconv.ParseUint(v[1], 10, 32)
	since, err2 := strconv.ParseInt(v[6], 10, 64)
	if err1 != nil || err2 != nil {
		return RunningJob{}, errAnswer
	}
	return RunningJob{
		ID: v[0], Attempt: uint32(attempt), Runner: v[2], Tenant: v[3], Priority: Priority(v[4]), Class: v[5],
		Since: time.UnixMilli(since),
	}, nil
}

// Available fails with sandbox_unavailable unless some runner may be given jobs of
// the class, so that no job waits for nobody.
func (q *Queue) Available(ctx context.Context, class string) error {
	runners, err := q.Runners(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, h := range runners {
		if h.Ready(class, now) {
			return nil
		}
	}
	return fault.New("no healthy sandbox runner offers "+class, "look at `quavon status`, and start a runner").
		WithCode(string(job.ReasonSandboxUnavailable))
}
