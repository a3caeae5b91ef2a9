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
	"github.com/quavon/quavon/runner/fix"
)

// fixOptions is what quavon fix-check was asked for.
type fixOptions struct {
	*program

	Patch     string
	Policy    string
	Workspace string
	Output    string
	Logs      bool
	Image     string
	Net       []string
	NetCIDR   []string
	Backend   string
	Runsc     string

	CPUs         float64
	Memory, Disk byteSize
	Timeout      time.Duration
	asked        func(flag string) bool
}

const fixLong = `Say what a patch mends and what it breaks: run a policy's setup, test and lint commands
in a sandbox, without the patch and with it, and compare.

FILE is the patch, as git diff writes it; "-" is stdin. The policy names the commands
(docs/scan.md shows its form). Setup may reach the hosts that the policy lists, if
--net allows them too; tests and linters have no network. Nothing is written to the
workspace.

Exit code 0: nothing broke. 1: something broke, or the patch does not apply. 3: it could
not be found out.`

const fixExample = `  quavon fix-check --policy fix.yml change.diff
  git diff main | quavon fix-check --policy fix.yml --net registry.example -`

func newFixCheck(p *program, run func(context.Context, *fixOptions) error) *cobra.Command {
	o := &fixOptions{program: p}
	cmd := &cobra.Command{
		Use: "fix-check [flags] --policy POLICY FILE", Short: "Run tests and linters before and after a patch",
		Long: fixLong, Example: fixExample, Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Patch, o.asked = args[0], cmd.Flags().Changed
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			return couldNotRun(run(cmd.Context(), o))
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *fixOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	o.Memory, o.Disk = 4<<30, 10<<30
	f.StringVar(&o.Policy, "policy", "", "file with the setup, test and lint commands; not one that the patch changes")
	f.StringVarP(&o.Workspace, "workspace", "w", ".", "directory that the patch is for")
	f.StringVarP(&o.Output, "output", "o", "text", "text or json")
	f.BoolVar(&o.Logs, "logs", false, "show what the commands print, on stderr")
	f.StringVarP(&o.Image, "image", "i", "", "image to run in, instead of the policy's")
	f.StringSliceVar(&o.Net, "net", nil, "HOST[,HOST...] that setup may reach, if the policy lists them")
	f.StringSliceVar(&o.NetCIDR, "net-private", nil, "private network (CIDR) that names of --net may lead to")
	f.Float64Var(&o.CPUs, "cpus", 0, "processors the job may use; 0 is all")
	f.Var(&o.Memory, "memory", "memory of the job and its sandbox; 0 is no limit")
	f.Var(&o.Disk, "disk", "files the job can write, all together; 0 is no limit")
	f.DurationVar(&o.Timeout, "timeout", time.Hour, "end each of the two jobs after this long; 0 is never")
	f.StringVar(&o.Backend, "backend", "runsc", "what isolates the jobs: "+strings.Join(backendNames, ", "))
	f.StringVar(&o.Runsc, "runsc", "", "path of gVisor's runsc (default: QUAVON_RUNSC, beside quavon, then PATH)")
}

func (o *fixOptions) check() error {
	switch {
	case o.Policy == "":
		return fault.New("--policy is missing", "name the file with the setup, test and lint commands: --policy FILE")
	case !slices.Contains([]string{"text", "json"}, o.Output):
		return fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use text or json")
	case len(o.NetCIDR) > 0 && len(o.Net) == 0:
		return fault.New("--net-private without --net", "name the hosts that may be there: --net HOST")
	}
	return cmp.Or(negative("use 0 for no limit", limit{"--timeout", o.Timeout < 0}, limit{"--cpus", o.CPUs < 0}), checkBackend(o.Backend))
}

// fixText writes a comparison for a person.
func (o *fixOptions) fixText(c fix.Comparison) error {
	var b strings.Builder
	for _, s := range c.Steps {
		fmt.Fprintf(&b, "%-13s %s %s (%s, then %s)\n", s.Verdict, s.Kind, printable(s.Name), s.Before, s.After)
	}
	_, err := fmt.Fprint(o.IO.Out, b.String())
	return err
}
