package queue

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// How often a waiter looks by itself: seldom when it hears what happens, often when
// another process's mailbox does.
const (
	lookHearing = 2 * time.Second
	lookDeaf    = 250 * time.Millisecond
)

// Attach makes a ticket for a job that another process has submitted.
func (q *Queue) Attach(ctx context.Context, id string) (*Ticket, error) {
	if !job.ValidID(id) {
		return nil, errUnknownJob
	}
	r, err := q.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Ticket{q: q, id: id, thread: r.thread}, nil
}

// nobody is the runner of a job that no runner has.
const nobody = "-"

// record is a job's state as the queue has it. Only result is sealed.
type record struct {
	state   string
	attempt uint32
	runner  string
	reason  job.Reason
	thread  envelope.Nonce
	result  []byte
}

func (q *Queue) lookup(ctx context.Context, id string) (record, error) {
	m, err := q.run(ctx, "look the job up", lookupScript, id, strconv.Itoa(envelope.MaxSize))
	if err != nil {
		return record{}, err
	}
	v, err := texts(m)
	if err != nil {
		return record{}, err
	}
	if len(v) == 0 {
		return record{}, errUnknownJob
	}
	if len(v) != 6 {
		return record{}, errAnswer
	}
	r := record{state: v[0], runner: strings.TrimPrefix(v[2], nobody), reason: job.Reason(v[3]), result: []byte(v[5])}
	attempt, err := strconv.ParseUint(v[1], 10, 32)
	if err != nil {
		return record{}, errAnswer
	}
	r.attempt = uint32(attempt)
	r.thread, err = decodeNonce(v[4])
	return r, err
}

// Wait waits for the job's end, and gives its log to follow meanwhile; follow may be
// nil, and its error ends waiting. The outcome is genuine: made by a holder of the
// key, for this very job. ctx ends waiting, not the job.
func (t *Ticket) Wait(ctx context.Context, follow func(Frame) error) (Outcome, error) {
	log := &follower{t: t, to: follow}
	box, every := t.inbox, lookHearing
	if box == nil {
		box, every = &inbox{}, lookDeaf // whose channels never say anything
	}
	look := time.NewTimer(0)
	if t.inbox != nil {
		look.Reset(every)
	}
	defer look.Stop()
	for {
		var (
			o    Outcome
			done bool
			err  error
		)
		select {
		case e := <-box.done:
			o, done = t.heard(e.result)
			if !done {
				look.Reset(0)
			}
		case <-box.output:
			e := box.attempt()
			err = log.read(ctx, e.attempt, e.runner)
		case <-look.C:
			look.Reset(every)
			o, done, err = t.look(ctx, log)
		case <-ctx.Done():
			return Outcome{}, context.Cause(ctx)
		}
		if err != nil {
			return Outcome{}, err
		}
		if done {
			return t.conclude(ctx, o, log)
		}
	}
}

// Close stops listening for the job.
func (t *Ticket) Close() {
	if t.inbox != nil {
		t.q.mail.remove(t.inbox)
	}
}

// heard opens a result that came by message. One that doesn't open is as good as none.
func (t *Ticket) heard(raw string) (Outcome, bool) {
	if raw == "" {
		return Outcome{}, false
	}
	o, err := t.outcome([]byte(raw))
	return o, err == nil
}

// look asks the queue what it has, and ends a job that nobody took in time.
func (t *Ticket) look(ctx context.Context, log *follower) (Outcome, bool, error) {
	r, err := t.q.lookup(ctx, t.id)
	if err != nil {
		return Outcome{}, false, err
	}
	if r.thread != t.thread {
		return Outcome{}, false, t.q.counted(envelope.Refuse(envelope.Replayed, "the queue has another job of this name"))
	}
	if r.state == "ended" {
		o, err := t.outcome(r.result)
		if err != nil {
			err = fault.Wrap(err, "the job ended "+string(r.reason)+", but its result is not genuine",
				"check that all have the same signing key").
				WithCode(string(job.ReasonRejected))
		}
		return o, err == nil, err
	}
	if r.state == "queued" && !t.startBy.IsZero() && time.Now().After(t.startBy) {
		if err := t.q.Sweep(ctx); err != nil {
			return Outcome{}, false, err
		}
	}
	if r.attempt > 0 && r.runner != "" {
		return Outcome{}, false, log.read(ctx, r.attempt, r.runner)
	}
	return Outcome{}, false, nil
}

// conclude reads the rest of the log.
func (t *Ticket) conclude(ctx context.Context, o Outcome, log *follower) (Outcome, error) {
	if o.Runner == "" {
		return o, nil
	}
	err := log.read(ctx, o.Attempt, o.Runner)
	o.LogComplete = log.frames != nil && log.frames.ended
	return o, err
}

// outcome opens what became of the job: a runner's result, or a verdict that there
// is none, which can't be a success.
func (t *Ticket) outcome(raw []byte) (Outcome, error) {
	want := envelope.Expect{Context: t.q.verdictContext(t.id, t.thread)}
	verdict := envelope.PeekPurpose(raw) == envelope.PurposeVerdict
	if !verdict {
		want.Context.Purpose, want.AnyDelivery = envelope.PurposeResult, true
	}
	e, err := t.q.open(raw, want)
	if err != nil {
		return Outcome{}, err
	}
	reason, body, ok := bytes.Cut(e.Payload, []byte("\n"))
	if !ok || verdict && len(reason) == 0 {
		return Outcome{}, t.q.counted(envelope.Refuse(envelope.Malformed, "a result without a reason"))
	}
	o := Outcome{Reason: job.Reason(reason), Attempt: e.Context.Attempt, Runner: e.Context.Runner}
	if !verdict {
		o.Files, o.Payload, err = decodeBody(body)
	}
	return o, t.q.counted(err)
}

// Download opens a file of the outcome. It is checked as it is read.
func (t *Ticket) Download(ctx context.Context, o Outcome, f File) (io.ReadCloser, error) {
	c := envelope.Context{
		Purpose: envelope.PurposeFiles, Audience: t.q.toSubmitters(), Job: t.id, Attempt: o.Attempt, Runner: o.Runner, Thread: t.thread,
	}
	return t.q.download(ctx, c, f.Ref, t.q.o.MaxFile)
}
