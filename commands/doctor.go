package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/quavon/quavon/docs"
	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/host"
	"github.com/quavon/quavon/doctor/report"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/state"
)

type doctorOptions struct {
	*program
	Output         string
	settings       *settings
	settingsErr    error
	Strict, List   bool
	Smoke, Local   bool
	Full           bool
	AllBackends    bool
	Edition        string
	EnvFile        string
	Ignore, Only   []string
	Accept, Save   []string
	Explain        string
	Wait           time.Duration
	Backend, Runsc string
}

const doctorLong = `Check this host and the installation on it. With --sandbox-smoke the sandboxes too:
every live runner of the queue is challenged, makes the checks by itself and answers
signed; --local tries a backend of this host instead, which needs no queue.

A check passes, warns, fails, or is skipped because the question doesn't arise; "error"
says that it could not be found out, which is never taken for a pass.

Exit codes: 0 when nothing failed, 1 when a check failed (with --strict also when one
warned), 2 for wrong usage, 3 when something could not be found out, 130 when
interrupted.`

func newDoctor(p *program, run func(context.Context, *doctorOptions) error) *cobra.Command {
	o := &doctorOptions{program: p, settings: newSettings(doctorSettings()...)}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check this host, the installation and the sandboxes", Long: doctorLong, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			o.settingsErr = o.settings.load(p, cmd.Flags().Changed) // the checks of the host need none
			o.fromInstallation()
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Output, "output", "o", "text", "text, json, junit or html")
	f.StringSliceVar(&o.Save, "save", nil, "write the report to files too, by their names' ends: .txt, .json, .xml (JUnit), .html")
	f.BoolVar(&o.Smoke, "sandbox-smoke", false, "check the sandboxes too")
	f.BoolVar(&o.Local, "local", false, "check a backend of this host, without a queue; implies --sandbox-smoke")
	f.StringVar(&o.Backend, "backend", runsc.Name, "backend of --local: "+strings.Join(backendNames, ", "))
	f.BoolVar(&o.AllBackends, "all-backends", false, "compare all backends of this host that isolate; implies --local")
	f.StringVar(&o.Runsc, "runsc", "", "path of runsc")
	f.StringVar(&o.EnvFile, "env-file", "", "the installation's .env (default: the one here, if there is one)")
	f.BoolVar(&o.Full, "full", false, "make long checks in full")
	f.StringVar(&o.Edition, "edition", "",
		"community, or enterprise, where a runner on the API's host is a failure (default: "+envEdition+")")
	f.StringSliceVar(&o.Only, "only", nil, "make only these checks, and those they need")
	f.StringSliceVar(&o.Ignore, "ignore", nil, "don't count these checks; QD957 can't be ignored")
	f.StringSliceVar(&o.Accept, "accept-risk", nil, "with --local, run weakened sandboxes on this host too, to see that the probes "+
		"find them out: "+runsc.RiskWeakArm)
	f.BoolVar(&o.Strict, "strict", false, "count warnings as failures")
	f.DurationVar(&o.Wait, "wait", 0, "give up what has not ended after this time; 0 waits for each check's own")
	f.BoolVar(&o.List, "list", false, "list the checks")
	f.StringVar(&o.Explain, "explain", "", "show what a code means, its cause and its fix")
	o.settings.register(f)
	return cmd
}

func (o *doctorOptions) check() error {
	switch {
	case !slices.Contains(report.Formats, o.Output):
		return fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use one of "+strings.Join(report.Formats, ", "))
	case o.Edition != "" && o.Edition != editionCommunity && o.Edition != editionEnterprise:
		return fault.New(fmt.Sprintf("--edition %q is unknown", o.Edition), "use community or enterprise")
	case o.Wait < 0:
		return fault.New("--wait is negative", "write a time such as 30s, or 0")
	}
	for _, file := range o.Save {
		if report.FormatOf(file) == "" {
			return fault.New(fmt.Sprintf("--save %s has no form", printable(file)), "end its name with .txt, .json, .xml or .html")
		}
		if err := fileFlag("--save", file); err != nil {
			return err
		}
	}
	o.Local = o.Local || o.AllBackends
	o.Smoke = o.Smoke || o.Local
	if err := o.checkRisks(); err != nil {
		return err
	}
	return checkBackend(o.Backend)
}

func runDoctor(ctx context.Context, o *doctorOptions) error {
	sandboxes := (&localSandbox{doctorOptions: o}).checks()
	switch {
	case o.AllBackends:
		(&comparison{o: o}).bind(sandboxes)
	case !o.Local:
		defer o.runners(sandboxes)()
	}
	all := slices.Concat(host.Checks(o.hostConfig()), o.valkeyChecks(), sandboxes)
	switch {
	case o.Explain != "":
		return o.explain(all)
	case o.List:
		return o.list(all)
	}
	ignore, err := doctor.Ignore(all, o.Ignore)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	checks := all
	if !o.Smoke && len(o.Only) == 0 {
		checks = slices.DeleteFunc(slices.Clone(all), func(c *doctor.Check) bool { return c.Group == groupSandbox })
	}
	if checks, err = doctor.Select(checks, o.Only); err != nil {
		return &exitError{exitUsage, err}
	}
	if o.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Wait, doctor.ErrWaited)
		defer cancel()
	}
	r := doctor.Run(ctx, checks, ignore)
	r.Strict = o.Strict
	err = report.Write(o.IO.Out, o.Output, r, o.reportOptions())
	if err = errors.Join(err, o.save(r)); err != nil {
		return err
	}
	if code := r.ExitCode(); code != doctor.ExitOK {
		return &exitError{Code: ExitCode(code)}
	}
	return nil
}

// save writes the report to files, which are whole or as before.
func (o *doctorOptions) save(r *doctor.Report) error {
	options := o.reportOptions()
	options.Width, options.Color = 0, false
	for _, file := range o.Save {
		var b bytes.Buffer
		err := report.Write(&b, report.FormatOf(file), r, options)
		if err == nil {
			err = renameio.WriteFile(file, b.Bytes(), 0o600)
		}
		if err != nil {
			return fault.Wrap(err, "save the report", "name a file that can be written")
		}
	}
	return nil
}

func (o *doctorOptions) reportOptions() report.Options {
	home, _ := os.UserHomeDir() // without one there is nothing to hide
	var secrets []string
	for _, s := range queueSettings() {
		if s.secret {
			secrets = append(secrets, o.env(s.name))
		}
	}
	r := report.Options{Version: ownVersion(), Mask: report.Masker(secrets, home)}
	if o.IO.OutIsTerminal() {
		_, cols := o.IO.Size()
		r.Width = int(cols)
		r.Color = report.ColorFor(true, o.env)
	}
	return r
}

// hostConfig binds the checks of the host to what the other verbs use.
func (o *doctorOptions) hostConfig() host.Config {
	return host.Config{
		Host:  host.Real{},
		Runsc: func() (string, error) { return o.findRunsc(o.Runsc) },
		Socket: func() (path, from string, err error) {
			e, err := o.findEngine()
			return e.Path(), e.From, err
		},
		StateDir: state.Default, CheckState: state.Check, EnvFile: o.envPath,
	}
}

// envPath is the .env file that is judged: the one named, else the one compose would
// read here.
func (o *doctorOptions) envPath() (file string, named bool) {
	file, err := filepath.Abs(cmp.Or(o.EnvFile, ".env"))
	if err != nil {
		return o.EnvFile, o.EnvFile != ""
	}
	return file, o.EnvFile != ""
}

func (o *doctorOptions) list(all []*doctor.Check) error {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s  %-16s  %-17s  %s\n", c.Code, c.Name, c.Group, c.Title)
	}
	_, err := o.IO.Out.Write([]byte(b.String()))
	return err
}

// explain shows a check's section of docs/doctor.md.
func (o *doctorOptions) explain(all []*doctor.Check) error {
	c, err := doctor.Find(all, o.Explain)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	text := section(docs.Doctor, c.Code)
	if text == "" {
		return errors.New("docs/doctor.md has no section " + c.Code)
	}
	_, err = fmt.Fprintf(o.IO.Out, "%s\n", text)
	return err
}

// section is a page's part below the heading "### CODE", "" when there is none.
func section(page, code string) string {
	_, rest, found := strings.Cut(page, "\n### "+code+"\n")
	if !found {
		return ""
	}
	if i := strings.Index(rest, "\n#"); i >= 0 {
		rest = rest[:i]
	}
	return code + "\n\n" + strings.TrimSpace(rest)
}
