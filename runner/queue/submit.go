package queue

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Priority says who goes first.
type Priority string

// Priorities. Interactive jobs go before all batch jobs.
const (
	Interactive Priority = "i"
	Batch       Priority = "b"
)

// Job is a job for the queue.
type Job struct {
	// ID is as in job.Spec; new for every job.
	ID string
	// Tenant is whose job it is: tenants take turns.
	Tenant   string
	Priority Priority
	// Class is what a runner must offer, such as an image's digest. Runners take
	// only classes they name.
	Class string
	// Payload says what to run; only submitter and runner read it.
	Payload []byte
	// StartIn is how long the job may wait for a runner: 10 min.
	StartIn time.Duration
	// RunFor is how long one attempt may take, all included: 1 h.
	RunFor time.Duration
	// Attempts is how many runners may be lost with it: 3.
	Attempts int
}

// Bounds of a Job.
const (
	maxAttempts = 20
	maxWait     = 7 * 24 * time.Hour
	maxRun      = 7 * 24 * time.Hour
)

var (
	validTenant = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)
	validClass  = regexp.MustCompile(`^[a-z0-9:._/-]{1,100}$`)
)

// Check refuses what Submit would refuse, without asking Valkey.
func (j Job) Check() error { return j.complete() }

func (j *Job) complete() error {
	if j.Priority == "" {
		j.Priority = Batch
	}
	if j.StartIn == 0 {
		j.StartIn = 10 * time.Minute
	}
	if j.RunFor == 0 {
		j.RunFor = time.Hour
	}
	if j.Attempts == 0 {
		j.Attempts = 3
	}
	var why string
	switch {
	case !job.ValidID(j.ID):
		why = "id: use 1 to 64 characters of a-z, 0-9 and -"
	case !validTenant.MatchString(j.Tenant):
		why = "tenant: use 1 to 64 letters, digits and ._@-"
	case !validClass.MatchString(j.Class):
		why = "class: use 1 to 100 characters of a-z, 0-9 and :._/-"
	case j.Priority != Interactive && j.Priority != Batch:
		why = "priority: use interactive or batch"
	case j.StartIn < 0 || j.StartIn > maxWait || j.RunFor < 0 || j.RunFor > maxRun:
		why = "times: at most 7 days each"
	case j.Attempts < 1 || j.Attempts > maxAttempts:
		why = fmt.Sprintf("attempts: 1 to %d", maxAttempts)
	default:
		return nil
	}
	return fault.New("the job can't be queued as written", "correct its "+why).WithCode(string(job.ReasonRejected))
}

// life is how long a job may be in the queue, all attempts included.
func (j *Job) life(lease time.Duration) time.Duration {
	return j.StartIn + time.Duration(j.Attempts)*(j.RunFor+2*lease)
}

// Ticket is a submitter's side of a job.
type Ticket struct {
	q      *Queue
	id     string
	thread envelope.Nonce
	// startBy is when a job that nobody took has expired.
	startBy time.Time
	inbox   *inbox
}

// ID is the job's.
func (t *Ticket) ID() string { return t.id }

// Submit queues a job with the files its runner needs; snapshot may be nil. When it
// returns nil the job will end, once, and Wait tells how.
func (q *Queue) Submit(ctx context.Context, j Job, snapshot io.Reader) (*Ticket, error) {
	if err := j.complete(); err != nil {
		return nil, err
	}
	thread := envelope.NewNonce()
	var files []File
	if snapshot != nil {
		ref, err := q.upload(ctx, q.snapshotContext(j.ID, thread), snapshot, j.life(q.o.Lease)+q.o.Retention, q.o.MaxSnapshot)
		if err != nil {
			return nil, err
		}
		files = append(files, File{"snapshot", ref})
	}
	raw, err := q.sealJob(j, thread, files)
	if err != nil {
		return nil, err
	}
	if err := q.mail.open(ctx); err != nil {
		return nil, err
	}
	t := &Ticket{q: q, id: j.ID, thread: thread, startBy: time.Now().Add(j.StartIn)}
	t.inbox = q.mail.add(j.ID)
	if err := q.submit(ctx, j, thread, raw); err != nil {
		q.mail.remove(t.inbox)
		return nil, err
	}
	return t, nil
}

func (q *Queue) snapshotContext(id string, thread envelope.Nonce) envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeSnapshot, Audience: q.toRunners(), Job: id, Thread: thread}
}

func (q *Queue) jobContext(id string) envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeJob, Audience: q.toRunners(), Job: id}
}

// sealJob seals the job. It is valid until no runner may begin another attempt.
func (q *Queue) sealJob(j Job, thread envelope.Nonce, files []File) ([]byte, error) {
	body, err := encodeBody(files, j.Payload)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return q.o.Keys.Seal(envelope.Envelope{
		Context: q.jobContext(j.ID), Nonce: thread,
		NotBefore: now, Expiry: now.Add(j.life(q.o.Lease)), Payload: body,
	})
}

func (q *Queue) submit(ctx context.Context, j Job, thread envelope.Nonce, raw []byte) error {
	answer, err := q.word(ctx, "queue the job", submitScript,
		j.ID, encodeNonce(thread), valkey.BinaryString(raw), j.Tenant, string(j.Priority), j.Class,
		strconv.Itoa(j.Attempts), ms(j.StartIn), ms(j.life(q.o.Lease)), ms(q.o.Retention), q.mail.name, strconv.Itoa(q.o.MaxQueued))
	if err != nil {
		return err
	}
	switch answer {
	case "ok":
		return nil
	case "exists":
		_ = q.counted(envelope.Refuse(envelope.Replayed, "job %s", j.ID)) // only the count
		return fault.New("queue the job: one named "+j.ID+" was here already", "give each job an id of its own").
			WithCode(string(job.ReasonRejected))
	case "full":
		return fault.New("queue the job: the queue is full of jobs of tenant "+j.Tenant, "wait, or add runners").
			WithCode(string(job.ReasonSandboxUnavailable))
	default:
		return fault.New("queue the job: it may not wait at all", "give it more time to start").WithCode(string(job.ReasonExpired))
	}
}
