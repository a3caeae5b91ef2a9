package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/scan"
)

// scanOptions is what quavon scan was asked for.
type scanOptions struct {
	*program
	settings *settings

	Dir        string
	Image      string
	Changed    string
	ConfigFrom string
	Disable    []string
	Modules    string
	Output     string
	SARIF      string
	Submit     bool
	Timeout    time.Duration
	Backend    string
	Runsc      string

	CPUs         float64
	Memory, Disk byteSize
	asked        func(flag string) bool
}

const scanLong = `Run all scanners of the scanners image over a directory, in one sandbox without a
network that sees the directory read-only, and make one report of what they find.

The scanners are ast-grep with Quavon's rules, gitleaks, bandit, gosec, Ruff's security
rules and ESLint with its security plugin. Those that have no files to read are
skipped. Neither the directory's own configuration of a scanner nor comments in the
code switch rules off.

Exit code 0: nothing was found. 1: something was found. 3: nothing was found, but a
scanner could not run, or the scan itself could not.`

const scanExample = `  quavon scan
  quavon scan --changed origin/main
  quavon scan -o sarif >report.sarif
  quavon scan --modules "$(go env GOMODCACHE)" ./service
  quavon scan --submit --changed origin/main`

func newScan(p *program, run func(context.Context, *scanOptions) error) *cobra.Command {
	o := &scanOptions{program: p, settings: newSettings(queueSettings()...)}
	cmd := &cobra.Command{
		Use: "scan [flags] [DIR]", Short: "Look for flaws with every scanner of the scanners image",
		Long: scanLong, Example: scanExample, Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir, o.asked = ".", cmd.Flags().Changed
			if len(args) > 0 {
				o.Dir = args[0]
			}
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			if err := o.settings.load(p, cmd.Flags().Changed); err != nil {
				return err
			}
			return couldNotRun(run(cmd.Context(), o))
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *scanOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	o.Memory, o.Disk = 4<<30, 10<<30
	f.StringVarP(&o.Image, "image", "i", "scanners", "image with the scanners: a name of the store or the lock, or a digest")
	f.StringVar(&o.Changed, "changed", "", "keep only findings on lines that were changed since this branch or commit was left")
	f.StringVar(&o.ConfigFrom, "config-from", "", "branch or commit to read "+scan.ConfigFile+
		` from; "dir" for the directory, "none" for none (default: what --changed names, else dir)`)
	f.StringSliceVar(&o.Disable, "disable", nil, "scanners to leave out: "+strings.Join(scan.Names(), ", "))
	f.StringVar(&o.Modules, "modules", "", "Go module cache to show to gosec, read-only")
	f.StringVarP(&o.Output, "output", "o", "text", "text, json or sarif")
	f.StringVar(&o.SARIF, "sarif", "", "write SARIF to this file, whatever --output says")
	f.BoolVar(&o.Submit, "submit", false, "send the scan to the runners of a queue")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "end a scanner after this long")
	f.Float64Var(&o.CPUs, "cpus", 0, "processors the scan may use; 0 is all")
	f.Var(&o.Memory, "memory", "memory of the scan and its sandbox; 0 is no limit")
	f.Var(&o.Disk, "disk", "files the scanners can write, all together; 0 is no limit")
	f.StringVar(&o.Backend, "backend", "runsc", "what isolates the scan: "+strings.Join(backendNames, ", "))
	f.StringVar(&o.Runsc, "runsc", "", "path of gVisor's runsc (default: QUAVON_RUNSC, beside quavon, then PATH)")
	o.settings.register(f)
}

// check refuses contradictions that need no look at the host.
func (o *scanOptions) check() error {
	for _, name := range o.Disable {
		if !scan.Known(name) {
			return fault.New(fmt.Sprintf("--disable %q is no scanner", name), "use some of "+strings.Join(scan.Names(), ", "))
		}
	}
	switch {
	case !slices.Contains([]string{"text", "json", "sarif"}, o.Output):
		return fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use text, json or sarif")
	case o.Submit && o.Modules != "":
		return fault.New("--submit can't send --modules", "vendor the modules, or scan here")
	case o.Timeout <= 0:
		return fault.New("--timeout leaves a scanner no time", "write one such as 10m")
	}
	return cmp.Or(negative("use 0 for no limit", limit{"--cpus", o.CPUs < 0}), checkBackend(o.Backend), fileFlag("--sarif", o.SARIF))
}

// couldNotRun gives errors that have no exit code yet that of a scan that could not
// be made.
func couldNotRun(err error) error {
	if err == nil || codeOf(err, exitNotRun) != exitNotRun {
		return err
	}
	return &exitError{exitNotRun, err}
}

// scanResult is the scan's JSON form.
type scanResult struct {
	// Status is "failed" when there is no report, with Reason, Message and Hint.
	Status  string     `json:"status"`
	Reason  job.Reason `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Hint    string     `json:"hint,omitempty"`
	Image   string     `json:"image,omitempty"`
	*scan.Report
	// Sandbox says what ran the scan, and Took how long it all was.
	Sandbox job.SandboxInfo `json:"sandbox,omitzero"`
	Took    time.Duration   `json:"took_ns,omitempty"`
}
