package service

import (
	"time"

	"github.com/quavon/quavon/runner/job"
)

// Stage is a point on a job's way through the runner.
type Stage string

// Stages, in their order. A job ends with one of the last four.
const (
	// Claimed: leased, and not looked at yet.
	Claimed Stage = "claimed"
	// Running: its files are here, and the sandbox is about to start.
	Running Stage = "running"
	// Storing: the sandbox is gone, and the result is about to be stored.
	Storing Stage = "storing"
	// Stored: the queue has the result.
	Stored Stage = "stored"
	// Lost: the lease went to another runner; what was done counts for nothing.
	Lost Stage = "lost"
	// HandedBack: the queue gives the job to another runner.
	HandedBack Stage = "handed_back"
	// Failed: nothing could be told to the queue, whose lease will lapse.
	Failed Stage = "failed"
)

// Event is a job reaching a stage.
type Event struct {
	Stage   Stage
	Job     string
	Attempt uint32
	At      time.Time
	// Result is what became of the job, from Storing on; nil when it was never run.
	Result *job.Result
	Err    error
}
