// Package client sends jobs to runners and takes their results back, in a few lines:
// see the example. What it returns was made by a holder of the signing key, for
// this very job.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/hostid"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/task"
	"github.com/quavon/quavon/runner/workspace"
)

// Options say which queue.
type Options struct {
	// Valkey is where it is; conn.ParseURL reads URLs.
	Valkey conn.Settings
	// Keys are the signing keys; ReadKeys reads them from a file.
	Keys *envelope.Keyring
	// Queue is its name: "default".
	Queue string
	Log   *slog.Logger
}

// Client is a connection to one queue. It is safe for concurrent use.
type Client struct{ q *queue.Queue }

// Open connects. The context ends background work only; Close ends all.
func Open(ctx context.Context, o Options) (*Client, error) {
	q, err := queue.Open(ctx, queue.Options{Conn: o.Valkey, Keys: o.Keys, Name: o.Queue, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return New(q), nil
}

// New is a client of a queue that is open already, and stays so.
func New(q *queue.Queue) *Client { return &Client{q} }

// Close ends the connection and what waits on it.
func (c *Client) Close() { c.q.Close() }

// maxKeys bounds a file of signing keys, in bytes.
const maxKeys = 64 << 10

// ReadKeys reads a file of signing keys.
func ReadKeys(path string) (*envelope.Keyring, error) {
	text, err := bounded.ReadFile(path, maxKeys)
	if err != nil {
		return nil, fault.Wrap(err, "read the signing key", "name the file of sandbox_signing_key, and make it readable for you")
	}
	return envelope.ParseKeyring(text)
}

// Ticket is a job that was submitted. It isn't safe for concurrent use.
type Ticket struct {
	t *queue.Ticket
	// attempt and frames say how much of the log was handed on, so that waiting again
	// goes on where waiting ended.
	attempt uint32
	frames  int
}

// ID is the job's.
func (t *Ticket) ID() string { return t.t.ID() }

// Cancel ends the job, whether it waits or runs. Wait tells when that has happened.
func (t *Ticket) Cancel(ctx context.Context) error { return t.t.Cancel(ctx) }

// Close stops listening for the job, which goes on.
func (t *Ticket) Close() { t.t.Close() }

// Submit queues a job and sends its workspace. It fails at once with the code
// sandbox_unavailable when no healthy runner offers what the job wants, and with
// policy_unsupported when none of those enforces it.
func (c *Client) Submit(ctx context.Context, j Job) (*Ticket, error) {
	t, err := j.task("job-" + strings.ToLower(rand.Text()[:20]))
	if err != nil {
		return nil, err
	}
	if err := c.available(ctx, t); err != nil {
		return nil, err
	}
	payload, err := t.Encode()
	if err != nil {
		return nil, err
	}
	snapshot := j.snapshot(ctx)
	if snapshot != nil {
		defer snapshot.Close()
	}
	ticket, err := c.q.Submit(ctx, j.queued(t, payload), reader(snapshot))
	if err != nil {
		return nil, err
	}
	return &Ticket{t: ticket}, nil
}

func (j *Job) queued(t task.Task, payload []byte) queue.Job {
	return queue.Job{
		ID: t.Spec.ID, Tenant: cmp.Or(j.Tenant, "default"), Priority: j.Priority.queue(), Class: t.Class(), Payload: payload,
		StartIn: time.Duration(j.StartIn), RunFor: t.Spec.Limits.Wall + handling, Attempts: j.Attempts,
	}
}

// handling is how long an attempt may take besides its steps: to fetch the workspace,
// to start, to hand back.
const handling = 30 * time.Minute

// reader keeps a nil pointer from becoming an interface that isn't nil.
func reader(r *io.PipeReader) io.Reader {
	if r == nil {
		return nil
	}
	return r
}

// available refuses a job that no runner would take.
func (c *Client) available(ctx context.Context, t task.Task) error {
	runners, err := c.q.Runners(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	class, missing := t.Class(), ""
	for _, h := range runners {
		if !h.Ready(class, now) {
			continue
		}
		if missing = lacks(h, t); missing == "" {
			return nil
		}
	}
	if missing != "" {
		return fault.New("no healthy sandbox runner can enforce "+missing, "leave it out, or choose another backend for a runner").
			WithCode(string(job.ReasonPolicyUnsupported))
	}
	return fault.New("no healthy sandbox runner offers "+describe(class), "look at `quavon status`, and start a runner").
		WithCode(string(job.ReasonSandboxUnavailable))
}

func describe(class string) string {
	if class == task.ClassHost {
		return "its host's toolchain"
	}
	return "the image " + class
}

// lacks names the policies that a runner doesn't enforce.
func lacks(h queue.Health, t task.Task) string {
	var missing []string
	for _, p := range sandbox.Require(t.ForWorkspace("/snapshot")) {
		if why, ok := h.Policies[string(p)]; !ok || why != sandbox.Enforced {
			missing = append(missing, strings.TrimSuffix(string(p)+" ("+why+")", " ()"))
		}
	}
	return strings.Join(missing, ", ")
}

// Attach finds a job that was submitted elsewhere, by its id.
func (c *Client) Attach(ctx context.Context, id string) (*Ticket, error) {
	t, err := c.q.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Ticket{t: t}, nil
}

// Run submits a job and waits for its end. When ctx ends, the job is cancelled.
func (c *Client) Run(ctx context.Context, j Job, log Log) (*Result, error) {
	t, err := c.Submit(ctx, j)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	res, err := t.Wait(ctx, log)
	if err == nil || ctx.Err() == nil {
		return res, err
	}
	return t.CancelAndWait(ctx, log)
}

var errNoEnd = errors.New("the job does not end")

// CancelAndWait cancels the job and waits a while for its end, also when ctx has
// ended.
func (t *Ticket) CancelAndWait(ctx context.Context, log Log) (*Result, error) {
	const patience = time.Minute
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, errNoEnd)
	defer cancel()
	if err := t.Cancel(ctx); err != nil {
		return nil, err
	}
	return t.Wait(ctx, log)
}

// Runners lists the runners that are alive.
func (c *Client) Runners(ctx context.Context) ([]queue.Health, error) { return c.q.Runners(ctx) }

// Status looks at the queue.
func (c *Client) Status(ctx context.Context) (queue.Status, error) { return c.q.Status(ctx) }

// Who announces a host.
const (
	ByControlPlane = queue.ByControlPlane
	BySubmit       = queue.BySubmit
)

// AnnounceHost publishes, signed, that the caller's host is the API's, so that `quavon
// doctor` (QD955) can tell whether a runner shares it. A control plane does so at its
// start and every few minutes; its word counts more than that of `quavon submit`.
func (c *Client) AnnounceHost(ctx context.Context, by string) error {
	return c.q.PublishHost(ctx, queue.HostRecord{Host: hostid.ID(), Boot: hostid.Boot(), By: by})
}

// snapshot streams the job's workspace, nil when it has none.
func (j *Job) snapshot(ctx context.Context) *io.PipeReader {
	write := j.Snapshot
	if write == nil && j.Dir != "" {
		write = func(ctx context.Context, w io.Writer) error {
			_, err := workspace.Pack(ctx, j.Dir, workspace.Everyones, w)
			return err
		}
	}
	if write == nil {
		return nil
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(packFault(write(ctx, w))) }() // a pipe's writer never fails to close
	return r
}

func packFault(err error) error {
	if err == nil || errors.Is(err, io.ErrClosedPipe) || fault.Code(err) != "" {
		return err
	}
	return fault.Wrap(err, "read the workspace", "check that it can be read, and that nothing in it changes now").
		WithCode(string(job.ReasonRejected))
}
