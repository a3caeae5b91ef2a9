package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quavon/quavon/commands/interrupt"
	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/task"
	"github.com/quavon/quavon/runner/workspace"
)

// submitJob does what the flags ask for. The error carries the process's exit code.
func submitJob(ctx context.Context, o *submitOptions) error {
	// First of all, since a refused job has a result too.
	if err := o.checkOutputs(); err != nil {
		return err
	}
	j, err := o.prepare(ctx)
	if err != nil {
		return o.refused(err)
	}
	c, err := o.settings.client(ctx, o.program)
	if err != nil {
		return o.refused(err)
	}
	defer c.Close()
	if o.Cancel != "" {
		return o.cancel(ctx, c)
	}
	if err := c.AnnounceHost(ctx, client.BySubmit); err != nil { // no job's concern
		o.Log.Warn("this host could not be announced", "error", err)
	}
	t, err := o.ticket(ctx, c, j)
	if err != nil {
		return o.refused(err)
	}
	defer t.Close()
	if o.Detach {
		_, err := fmt.Fprintln(o.IO.Out, t.ID())
		return err
	}
	res, err := o.follow(ctx, t)
	if err != nil {
		return o.refused(err)
	}
	if err := o.deliver(ctx, res); err != nil {
		return err
	}
	return o.verdict(ctx, res)
}

// client connects to the queue.
func (s *settings) client(ctx context.Context, p *program) (*client.Client, error) {
	qo, err := s.queueOptions()
	if err != nil {
		return nil, err
	}
	return client.Open(ctx, client.Options{Valkey: qo.Conn, Keys: qo.Keys, Queue: qo.Name, Log: p.Log})
}

// prepare reads all that is to be submitted, before anybody is asked for anything. There
// is no job to submit when one is waited for or cancelled.
func (o *submitOptions) prepare(ctx context.Context) (j client.Job, err error) {
	if o.Wait != "" || o.Cancel != "" {
		return j, nil
	}
	if j, err = o.job(); err != nil {
		return j, err
	}
	if err := o.addWorkspace(ctx, &j); err != nil {
		return j, err
	}
	if err := o.addSecrets(&j); err != nil {
		return j, err
	}
	return j, j.Check()
}

// ticket submits the job, or finds the one to wait for.
func (o *submitOptions) ticket(ctx context.Context, c *client.Client, j client.Job) (*client.Ticket, error) {
	if o.Wait != "" {
		return c.Attach(ctx, o.Wait)
	}
	return c.Submit(ctx, j)
}

func (o *submitOptions) cancel(ctx context.Context, c *client.Client) error {
	t, err := c.Attach(ctx, o.Cancel)
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Cancel(ctx)
}

// follow waits for the job. The first signal cancels it, the second leaves it.
func (o *submitOptions) follow(ctx context.Context, t *client.Ticket) (*client.Result, error) {
	log := client.Log{Stdout: o.IO.Out, Stderr: o.IO.ErrOut, Note: func(s string) { o.note(s) }}
	if o.JSON == "-" || o.Patch == "-" {
		log.Stdout = o.IO.ErrOut
	}
	res, err := t.Wait(ctx, log)
	if err == nil || ctx.Err() == nil {
		return res, err
	}
	o.note("cancelling the job " + t.ID())
	late, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	go func() {
		select {
		case <-o.Hurry:
			leave(errors.New("left to itself"))
		case <-late.Done():
		}
	}()
	if err := t.Cancel(late); err != nil {
		return nil, err
	}
	return t.Wait(late, log)
}

// note says something about the job that isn't its own output.
func (o *submitOptions) note(s string) {
	if o.logFormat == "json" {
		o.Log.Info("job", "note", s)
		return
	}
	_, _ = io.WriteString(o.IO.ErrOut, "quavon: "+printable(s)+"\n") // there is nowhere else to say it
}

// refused notes an error in the result's JSON form, which a refused job has too.
func (o *submitOptions) refused(err error) error {
	if o.JSON == "" {
		return err
	}
	res := client.Result{Report: task.Report{Result: failed(job.Result{Exit: -1}, err)}}
	return errors.Join(err, o.writeResult(&res))
}

func (o *submitOptions) writeResult(res *client.Result) error {
	if o.JSON == "-" {
		return o.writeJSON(res)
	}
	doc, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	return workspace.WriteFile(o.JSON, func(w io.Writer) error {
		_, err := w.Write(append(doc, '\n'))
		return err
	})
}

// deliver fetches what the job hands back.
func (o *submitOptions) deliver(ctx context.Context, res *client.Result) error {
	// The job is over: an interrupt must not lose what it made. It is a while only.
	const patience = 10 * time.Minute
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, errors.New("fetching the result takes too long"))
	defer cancel()
	if o.Patch != "" && res.Has(task.FilePatch) {
		if err := o.writePatch(ctx, res); err != nil {
			return err
		}
	}
	if o.Out != "" && res.Has(task.FileArtefacts) {
		got, err := res.Artefacts(ctx, o.Out)
		o.tell("--collect", got.Skipped)
		if err != nil {
			return err
		}
	}
	o.tell("--patch", res.PatchSkipped)
	for _, r := range res.OutboxRefused {
		o.note(fmt.Sprintf("line %d of the outbox was refused: %s", r.Line, r.Why))
	}
	if o.JSON != "" {
		return o.writeResult(res)
	}
	return nil
}

func (o *submitOptions) writePatch(ctx context.Context, res *client.Result) error {
	if o.Patch == "-" {
		return res.Patch(ctx, o.IO.Out)
	}
	return workspace.WriteFile(o.Patch, func(w io.Writer) error { return res.Patch(ctx, w) })
}

// tell names what was left out.
func (o *submitOptions) tell(what string, skipped []workspace.Skip) {
	h := handback{o: &runOptions{program: o.program}}
	h.tell(what, skipped)
}

// verdict says how the job ended, and returns the exit code that says the same.
func (o *submitOptions) verdict(ctx context.Context, res *client.Result) error {
	if !res.LogComplete && res.Runner != "" {
		o.note("not all of the job's output has arrived")
	}
	if what := refusals(res.Result); what != "" {
		o.say(what, "it takes a rule of the job's (--net, or allow of a job file) and one of the operator's "+
			"(QUAVON_SANDBOX_REGISTRIES); docs/egress.md explains the reasons")
	}
	limits := strings.Join(res.LimitsHit, ", ")
	switch {
	case res.Reason != job.ReasonNone:
		o.say(fmt.Sprintf("%s: %s", res.Reason, res.Message), res.Hint)
	case res.Message != "":
		o.say(res.Message, "")
	case limits != "" && res.Exit != 0:
		o.say("the job reached "+limits+", which may be why it failed", "")
	}
	if res.Reason == job.ReasonCancelled && interrupt.Of(ctx) == nil {
		return &exitError{Code: exitCancelled}
	}
	if code := exitCodeFor(ctx, res.Result); code != exitOK {
		return &exitError{Code: code}
	}
	return nil
}
