package commands

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/bundle"
	"github.com/quavon/quavon/doctor/host"
	"github.com/quavon/quavon/runner/bounded"
)

type bundleOptions struct {
	doctorOptions

	File       string
	Recipients []string
	Project    string
	Since      time.Duration
	DryRun     bool
}

const bundleLong = `Pack what somebody who helps needs to see: the doctor's report, versions, configuration
and recent logs. Secrets are hidden by their values and by their looks, homes by their
paths; what is in the bundle is listed before it is written. Look through it before you
send it: what a program logged isn't known here.

With --recipient only the owner of that key of age can read it. Nothing is overwritten.`

func newSupportBundle(p *program, run func(context.Context, *bundleOptions) error) *cobra.Command {
	o := &bundleOptions{doctorOptions: doctorOptions{program: p, settings: newSettings(doctorSettings()...)}}
	cmd := &cobra.Command{
		Use: "support-bundle", Short: "Pack report, versions, configuration and logs for somebody who helps", Long: bundleLong,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.settingsErr = o.settings.load(p, cmd.Flags().Changed) // a bundle is made when something is wrong
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.File, "file", "f", "",
		"the bundle: .tar.gz or .tar.zst, with .age behind it when encrypted (default: quavon-support-TIME.tar.gz here)")
	f.StringArrayVar(&o.Recipients, "recipient", nil, "encrypt for the owner of this public key of age, age1…; may be given again")
	f.StringVar(&o.EnvFile, "env-file", "", "the installation's .env (default: the one here, if there is one)")
	f.StringVar(&o.Project, "project", "quavon", "compose's name of the installation, whose logs are taken")
	f.DurationVar(&o.Since, "since", 24*time.Hour, "age of the oldest lines of logs")
	f.BoolVar(&o.Smoke, "sandbox-smoke", false, "check the sandboxes of the queue's runners too")
	f.BoolVar(&o.DryRun, "dry-run", false, "list what would be in it, and write nothing")
	o.settings.register(f)
	return cmd
}

func makeBundle(ctx context.Context, o *bundleOptions) error {
	to, err := bundle.Recipients(o.Recipients)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	now := time.Now()
	file := cmp.Or(o.File, "quavon-support-"+now.UTC().Format("20060102-150405")+bundle.GzipEnding)
	if len(to) > 0 && !strings.HasSuffix(file, bundle.AgeEnding) {
		file += bundle.AgeEnding
	}
	if !o.DryRun {
		if err := fileFlag("--file", file); err != nil {
			return err
		}
	}
	b, err := o.fill(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(o.IO.Out, b.List()); err != nil || o.DryRun {
		return err
	}
	if err := b.WriteFile(file, to, now); err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.IO.Out, "written to "+file)
	return err
}

// fill collects everything. What can't be had is left out, or says so.
func (o *bundleOptions) fill(ctx context.Context) (*bundle.Bundle, error) {
	s := o.sources()
	b := bundle.New(bundle.NewMask(append(s.Secrets(), o.secrets()...), homes()))
	if err := b.AddReport(o.examine(ctx), ownVersion()); err != nil {
		return nil, err
	}
	b.Add("versions.txt", "programs and systems", s.Versions(ctx, ownVersion()))
	var settings strings.Builder
	if err := o.settings.show(&settings); err != nil {
		return nil, err
	}
	if o.settingsErr != nil {
		settings.WriteString("# " + o.settingsErr.Error() + "\n")
	}
	b.Add("settings.txt", "settings, and where they come from", settings.String())
	if env, err := host.EnvListing(s.Host, s.EnvFile); err == nil {
		b.Add("env.txt", "the settings of .env", env)
	}
	for about, files := range map[string]map[string]string{"configuration": s.Configuration(), "log": s.Logs(ctx)} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			b.Add(about+"/"+name, about, files[name])
		}
	}
	slices.SortFunc(b.Entries, func(x, y bundle.Entry) int { return cmp.Compare(x.Name, y.Name) })
	return b, ctx.Err()
}

func (o *bundleOptions) sources() bundle.Sources {
	s := bundle.Sources{Host: host.Real{}, Project: o.Project, Since: fmt.Sprintf("%.0fs", o.Since.Seconds())}
	s.EnvFile, _ = o.envPath()
	if runsc, err := o.findRunsc(o.Runsc); err == nil {
		s.Runsc = runsc
	}
	if e, err := o.findEngine(); err == nil {
		s.Socket = e.Path()
	}
	return s
}

// examine makes the doctor's checks: of the host, and when asked of the sandboxes.
func (o *bundleOptions) examine(ctx context.Context) *doctor.Report {
	checks := host.Checks(o.hostConfig())
	if o.Smoke {
		sandboxes := (&localSandbox{doctorOptions: &o.doctorOptions}).checks()
		defer o.runners(sandboxes)()
		checks = append(checks, sandboxes...)
	}
	return doctor.Run(ctx, checks, nil)
}

// secrets are the values of settings, and the files that settings name for secrets.
func (o *bundleOptions) secrets() []string {
	var out []string
	for _, s := range o.settings.list {
		if s.secret {
			out = append(out, s.value, o.env(s.name))
		}
		if !strings.HasSuffix(s.name, "_FILE") || s.value == "" {
			continue
		}
		if text, err := bounded.ReadFile(s.value, maxSecret); err == nil {
			out = append(out, string(text))
		}
	}
	return out
}

// homes are this user's; those below /home are known by their look.
func homes() []string {
	var out []string
	if home, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Clean(home))
	}
	return out
}
