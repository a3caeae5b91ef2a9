package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/scan"
	"github.com/quavon/quavon/runner/workspace"
)

// scanRoot is where the scanned directory is shown; nothing is beside it.
const scanRoot = "/scan/workspace"

// runScan scans and shows what was found. The error carries the exit code.
func runScan(ctx context.Context, o *scanOptions) error {
	begin := time.Now()
	res, err := o.scan(ctx)
	res.Took = time.Since(begin)
	if err != nil {
		res.Status, res.Reason, res.Message, res.Hint = "failed", job.Reason(fault.Code(err)), err.Error(), fault.Hint(err)
		if o.Output == "json" {
			_ = o.writeJSON(res) // the error is told anyway
		}
		return err
	}
	res.Status = "done"
	if err := o.show(res); err != nil {
		return err
	}
	switch {
	case len(res.Findings) > 0:
		return &exitError{Code: exitFail}
	case res.Failed():
		return &exitError{Code: exitNotRun}
	}
	return nil
}

// scan makes the report, and leaves out what the configuration and --changed say.
func (o *scanOptions) scan(ctx context.Context) (scanResult, error) {
	var res scanResult
	dir, err := directory("DIR", o.Dir)
	if err != nil {
		return res, err
	}
	tree, err := openScanTree(dir)
	if err != nil {
		return res, err
	}
	defer tree.Close()
	if err := o.findBase(ctx, tree); err != nil {
		return res, err
	}
	config, err := o.config(ctx, tree)
	if err != nil {
		return res, err
	}
	so := scan.Options{Root: scanRoot, Disable: append(config.Disable, o.Disable...), Timeout: o.Timeout}
	if o.Submit {
		res.Report, res.Image, err = o.remote(ctx, tree, so)
	} else {
		err = o.local(ctx, tree, so, &res)
	}
	if err != nil {
		return res, err
	}
	res.Ignore(config.IgnorePaths)
	res.Place(tree.read)
	if tree.base != "" {
		err = res.KeepChanged(func(path string) (scan.Lines, error) { return tree.changed(ctx, path) })
	}
	return res, err
}

// local runs the scan in a sandbox of this host.
func (o *scanOptions) local(ctx context.Context, tree *scanTree, so scan.Options, res *scanResult) error {
	ro := &runOptions{
		program: o.program, Image: o.Image, Backend: o.Backend, Runsc: o.Runsc, CPUs: o.CPUs, Memory: o.Memory,
		Pids: 4096, Disk: o.Disk, OutputLimit: scan.MaxStream, Timeout: o.wall(), Grace: runner.DefaultGrace, asked: o.asked,
	}
	r, err := ro.runner()
	if err != nil {
		return err
	}
	if err := ro.findImage(ctx, r); err != nil {
		return err
	}
	argv, err := scan.Argv(so)
	if err != nil {
		return err
	}
	spec := job.Spec{
		ID: "scan-" + strings.ToLower(rand.Text()[:16]), Root: ro.root(), Limits: ro.limits(r.Backend.Policies()),
		Mounts: []job.Mount{{Source: tree.dir, Target: scanRoot, Mode: job.MountReadOnly}},
		Steps:  []job.Step{{Name: "scan", Argv: argv, Dir: scanRoot, Network: job.NetworkNone}},
	}
	if o.Modules != "" {
		if err := addMount(&spec, "--modules", o.Modules, "/modules", job.MountReadOnly); err != nil {
			return err
		}
		spec.Steps[0].Env = []string{"GOMODCACHE=/modules"}
	}
	res.Image = ro.image.Config.String()
	reaper := &reaping{Backend: r.Backend, log: o.Log}
	r.Backend = reaper
	var out bytes.Buffer
	said := &lastBytes{most: 4 << 10}
	result, err := r.Run(ctx, spec, runner.Streams{Stdout: &out, Stderr: said, Hurry: o.Hurry})
	reaper.wait()
	if err == nil {
		err = scanEnded(ctx, result, said.String())
	}
	if err != nil {
		return err
	}
	res.Sandbox = result.Sandbox
	res.Report, err = scan.Read(&out, so, workspace.RepoPath(tree.dir))
	return err
}

// wall is the whole job's time: the scanners share the processors, so the last may
// have to wait for all others.
func (o *scanOptions) wall() time.Duration {
	return time.Duration(len(scan.Names()))*o.Timeout + time.Minute
}

// scanEnded makes an error of a job that did not write its report.
func scanEnded(ctx context.Context, res job.Result, said string) error {
	if res.Reason == job.ReasonNone && res.Exit == 0 {
		return nil
	}
	why := res.Message
	if res.Reason == job.ReasonNone {
		why = fmt.Sprintf("exit code %d: %s", res.Exit, strings.TrimSpace(said))
	}
	err := fault.New("the scan did not end by itself: "+why, "raise --timeout, --memory or --disk, or scan a smaller directory").
		WithCode(string(res.Reason))
	if code := exitCodeFor(ctx, res); res.Reason == job.ReasonCancelled {
		return &exitError{code, err}
	}
	return err
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	most int
	text []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-l.most):]
	return len(p), nil
}

func (l *lastBytes) String() string { return string(l.text) }

// show writes the report as it was asked for.
func (o *scanOptions) show(res scanResult) error {
	if o.SARIF != "" {
		err := workspace.CheckOutput(o.SARIF, o.Dir)
		if err == nil {
			err = workspace.WriteFile(o.SARIF, func(w io.Writer) error { return res.WriteSARIF(w, res.Image) })
		}
		if err != nil {
			return fault.Wrap(err, "can't write SARIF", "name another file: --sarif FILE")
		}
	}
	switch o.Output {
	case "json":
		return o.writeJSON(res)
	case "sarif":
		o.tellTools(res.Report)
		return res.WriteSARIF(o.IO.Out, res.Image)
	}
	for _, f := range res.Findings {
		place := fmt.Sprintf("%s:%d", printable(f.Path), f.Line)
		if f.Column > 0 {
			place += fmt.Sprintf(":%d", f.Column)
		}
		place = strings.ReplaceAll(place, "\n", `\n`)
		if _, err := fmt.Fprintf(o.IO.Out, "%s: %s: %s [%s %s]\n", place, f.Level, f.Message, f.Tool, f.Rule); err != nil {
			return err
		}
	}
	o.tellTools(res.Report)
	return nil
}

// tellTools says on stderr how the scanners fared.
func (o *scanOptions) tellTools(r *scan.Report) {
	var parts []string
	for _, t := range r.Tools {
		part := fmt.Sprintf("%s %d", t.Name, t.Found)
		if t.Status != scan.StatusOK {
			part = t.Name + " " + string(t.Status)
		}
		parts = append(parts, part)
		for _, e := range t.Errors {
			o.say(t.Name+" could not run: "+e, "")
		}
		for _, n := range t.Notes {
			o.Log.Info("scanner's note", "tool", t.Name, "note", n)
		}
	}
	text := fmt.Sprintf("%d findings (%s)", len(r.Findings), strings.Join(parts, ", "))
	if r.Ignored > 0 {
		text += fmt.Sprintf("; %d in ignored paths left out", r.Ignored)
	}
	if r.Unchanged > 0 {
		text += fmt.Sprintf("; %d on unchanged lines left out", r.Unchanged)
	}
	o.say(text, "")
}
