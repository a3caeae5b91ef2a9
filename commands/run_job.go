package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/workspace"
)

// runJob runs the job and hands back what was asked for. The error carries the
// process's exit code, which is the job's own unless quavon failed.
func runJob(ctx context.Context, o *runOptions) error {
	// First of all, since a refused job has a result too.
	if err := cmp.Or(o.checkOutput("--json", o.JSON), o.checkResult()); err != nil {
		return err
	}
	res, err := o.runAndDeliver(ctx)
	if o.JSON != "" {
		if jsonErr := o.writeResult(res); err == nil {
			err = jsonErr
		}
	}
	if err != nil {
		return err
	}
	return o.verdict(ctx, res)
}

func (o *runOptions) runAndDeliver(ctx context.Context) (job.Result, error) {
	none := job.Result{Exit: -1}
	r, err := o.runner()
	if err != nil {
		return failed(none, err), err
	}
	if err := o.findImage(ctx, r); err != nil {
		return failed(none, err), err
	}
	if r.Door, err = o.door(); err != nil {
		return failed(none, err), err
	}
	spec, err := o.spec(r.Backend.Policies())
	if err != nil {
		return failed(none, err), err
	}
	back := newHandback(o, spec)
	defer back.close()
	streams, restore, err := o.streams(back)
	if err != nil {
		return failed(none, err), err
	}
	defer restore()
	reaper := &reaping{Backend: r.Backend, log: o.Log}
	r.Backend = reaper
	res, err := r.Run(ctx, spec, streams)
	reaper.wait()
	if err != nil {
		return res, err
	}
	if err := back.deliver(ctx, res); err != nil {
		return failed(res, err), err
	}
	return res, nil
}

// failed notes an error of ours in a result.
func failed(res job.Result, err error) job.Result {
	res.Reason = cmp.Or(job.Reason(fault.Code(err)), job.ReasonInternal)
	res.Message, res.Hint = err.Error(), fault.Hint(err)
	return res
}

// runner finds everything on this host that a job needs.
func (o *runOptions) runner() (*runner.Runner, error) {
	guest, err := o.findGuest()
	if err != nil {
		return nil, err
	}
	dir, err := state.Default()
	if err != nil {
		return nil, err
	}
	st, err := state.Open(dir)
	if err != nil {
		return nil, err
	}
	b, err := o.openBackend(o.Backend, o.Runsc, st)
	if err != nil {
		return nil, err
	}
	return &runner.Runner{
		Backend: b, Guest: guest, Store: st.Path("toolchain"), Spool: st.Path(),
		Grace: o.Grace, Log: o.Log,
	}, nil
}

// streams connects the job to this process's streams. With a document of ours on
// stdout, the job's own stdout goes to stderr.
func (o *runOptions) streams(back *handback) (runner.Streams, func(), error) {
	s := runner.Streams{
		Stdout: o.IO.Out, Stderr: o.IO.ErrOut, Hurry: o.Hurry,
		Collected: back.collected, Changed: back.changed(),
	}
	if o.JSON == "-" || o.Patch == "-" {
		s.Stdout = o.IO.ErrOut
	}
	if o.IO.Foreground() {
		s.Stdin = toldReader{o.program}
	}
	if !o.TTY {
		return s, func() {}, nil
	}
	s.Rows, s.Cols = o.IO.Size()
	s.Resize = o.resizes()
	restore, err := o.IO.Raw()
	if err != nil {
		return s, nil, fault.Wrap(err, "can't use the terminal", "leave --tty out")
	}
	return s, restore, nil
}

// toldReader is stdin for a job, to which one that can't be read looks like one that has
// ended.
type toldReader struct{ *program }

func (r toldReader) Read(b []byte) (int, error) {
	n, err := r.IO.In.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.say("the job's stdin ends early: "+err.Error(), "name something that can be read behind <")
	}
	return n, err
}

// resizes reports the terminal's new sizes.
func (o *runOptions) resizes() <-chan runner.Size {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	sizes := make(chan runner.Size)
	go func() {
		for range changed {
			rows, cols := o.IO.Size()
			sizes <- runner.Size{Rows: rows, Cols: cols}
		}
	}()
	return sizes
}

// writeResult writes the result's JSON form to where --json says.
func (o *runOptions) writeResult(res job.Result) error {
	if o.JSON == "-" {
		return o.writeJSON(res)
	}
	doc, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	err = workspace.WriteFile(o.JSON, func(w io.Writer) error {
		_, err := w.Write(append(doc, '\n'))
		return err
	})
	if err != nil {
		return fault.Wrap(err, "can't write the result", "name another file: --json=FILE")
	}
	return nil
}
