package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
)

// runOptions is everything quavon run was asked for.
type runOptions struct {
	*program

	Argv      []string
	Image     string
	User      string
	Workspace string
	Write     bool
	Patch     string
	Collect   []string
	Out       string
	Caches    []string
	CacheMode string
	ReadOnly  []string
	Env       []string
	Net       []string
	NetCIDR   []string
	Secrets   []string
	TTY       bool
	JSON      string
	Backend   string
	Runsc     string
	Grace     time.Duration

	CPUs                      float64
	Memory, Disk, OutputLimit byteSize
	Pids                      int64
	Timeout                   time.Duration
	// image is what Image names in the store.
	image *image.Record
	// asked says whether a flag was given, so that a default can give way where a
	// request must be refused.
	asked func(flag string) bool
}

const runLong = `Run a command in a throwaway sandbox, with this host's own tools or in an image.

The command sees /usr and a part of /etc, read-only, and the current directory at
/workspace. It may change everything there: the changes stay in the sandbox and are
gone afterwards, unless --write, --patch or --collect hands them back. There is no
network, only a way out to the hosts that --net names. It runs as an unprivileged
user, with nothing of your home directory, your environment or your credentials,
unless you pass it.

With --image it sees the image's files instead, all of them writable as far as its
user may, and runs as the user and in the environment that the image's config names.
Without a command the image's own is run. "quavon images --help" says how images
get here.

The exit code is the command's own; "quavon help exit-codes" has the others.`

const runExample = `  quavon run -- npm test
  quavon run --memory 2GiB --timeout 10m -- go test ./...
  quavon run --patch fix.diff -- ./codemod.sh
  quavon run --collect 'reports/**/*.xml' --out results -- make test
  quavon run --image node22 -- npm test
  quavon run --net registry.example --write -- npm ci
  quavon run -t -- bash`

func newRun(p *program, run func(context.Context, *runOptions) error) *cobra.Command {
	o := &runOptions{program: p}
	cmd := &cobra.Command{
		Use:     "run [flags] -- COMMAND [ARG...]",
		Short:   "Run a command in a sandbox with the host's tools or in an image",
		Long:    runLong,
		Example: runExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Argv, o.asked = args, cmd.Flags().Changed
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			return run(cmd.Context(), o)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *runOptions) flags(f *pflag.FlagSet) {
	f.SetInterspersed(false) // what follows the command is the command's
	f.SortFlags = false
	f.StringVarP(&o.Image, "image", "i", "", "image to run in: a name of the store or the lock, or a digest; see quavon images ls")
	f.StringVarP(&o.User, "user", "u", "", "user of the image to run as: NAME, UID or UID:GID (default: the image's own)")
	f.StringVarP(&o.Workspace, "workspace", "w", ".", `directory shown at /workspace; "none" for none`)
	f.BoolVar(&o.Write, "write", false, "write the job's changes back to the workspace when it has ended by itself")
	f.StringVar(&o.Patch, "patch", "", `write the job's changes as a git patch to this file; "-" is stdout`)
	f.StringArrayVar(&o.Collect, "collect", nil, "hand back files of the workspace that match this pattern (repeatable); needs --out")
	f.StringVar(&o.Out, "out", "", "directory for what --collect finds")
	f.StringArrayVar(&o.Caches, "cache", nil, "DIR[:PATH] to show writable, kept after a success; PATH is /cache by default (repeatable)")
	f.StringVar(&o.CacheMode, "cache-mode", "keep", "keep what a successful job changed in its caches, or ro to drop it")
	f.StringArrayVar(&o.ReadOnly, "ro", nil, "DIR[:PATH] to show read-only, such as tools outside of /usr (repeatable)")
	f.StringArrayVarP(&o.Env, "env", "e", nil, "KEY=VALUE for the job, or KEY to pass yours on (repeatable)")
	f.StringSliceVar(&o.Net, "net", nil,
		"HOST[,HOST...] to let the job reach: by TLS, or as http://HOST[/PATH] or tcp://HOST:PORT; *.HOST for all below it")
	f.StringSliceVar(&o.NetCIDR, "net-private", nil, "private network (CIDR) that names of --net may lead to")
	f.StringArrayVar(&o.Secrets, "secret", nil, secretUsage)
	o.limitFlags(f)
	f.BoolVarP(&o.TTY, "tty", "t", false, "give the job a terminal")
	f.StringVar(&o.JSON, "json", "", "write the result as JSON to stdout, and the job's output to stderr; or =FILE")
	f.Lookup("json").NoOptDefVal = "-"
	f.StringVar(&o.Backend, "backend", "runsc", "what isolates the job: "+strings.Join(backendNames, ", "))
	f.StringVar(&o.Runsc, "runsc", "", "path of gVisor's runsc (default: QUAVON_RUNSC, beside quavon, then PATH)")
}

func (o *runOptions) limitFlags(f *pflag.FlagSet) {
	o.Memory, o.Disk, o.OutputLimit = 4<<30, 10<<30, 1<<30
	f.Float64Var(&o.CPUs, "cpus", 0, "processors the job may use, such as 1.5; 0 is all")
	f.Var(&o.Memory, "memory", "memory of the job and its sandbox, without swap; 0 is no limit")
	f.Int64Var(&o.Pids, "pids", 1024, "processes and threads of the job; 0 is no limit")
	f.Var(&o.Disk, "disk", "files the job can write, all together; 0 is no limit")
	f.DurationVar(&o.Timeout, "timeout", time.Hour, "end the job after this long; 0 is never")
	f.Var(&o.OutputLimit, "output-limit", "end the job when it has printed this much; 0 is no limit")
	f.DurationVar(&o.Grace, "grace", 2*time.Second, "time between SIGTERM and SIGKILL when the job is ended")
}

// check refuses contradictions that need no look at the host.
func (o *runOptions) check() error {
	noWorkspace := o.Workspace == "none"
	switch {
	case len(o.Argv) == 0 && o.Image == "":
		return fault.New("there is no command to run", "write it behind --, such as: quavon run -- make test")
	case o.User != "" && o.Image == "":
		return fault.New("--user without --image", "with the host's tools a job is always the same user: leave it out")
	case len(o.Collect) > 0 && o.Out == "":
		return fault.New("--collect without --out", "name a directory for the files: --out DIR")
	case o.Out != "" && len(o.Collect) == 0:
		return fault.New("--out without --collect", "say which files: --collect 'PATTERN'")
	case noWorkspace && (o.Write || o.Patch != "" || len(o.Collect) > 0):
		return fault.New("--workspace none leaves nothing to write, patch or collect", "leave one of the flags out")
	case len(o.NetCIDR) > 0 && len(o.Net) == 0:
		return fault.New("--net-private without --net", "name the hosts that may be there: --net HOST")
	case len(o.Secrets) > 0 && len(o.Net) == 0:
		return fault.New("--secret without --net", "name the host of its url: --net HOST")
	case o.Patch == "-" && o.JSON == "-":
		return fault.New("--patch - and --json both want stdout", "give one of them a file")
	case o.CacheMode != "keep" && o.CacheMode != "ro":
		return fault.New(fmt.Sprintf("--cache-mode %q is unknown", o.CacheMode), "use keep or ro")
	}
	if o.Grace < 0 {
		return fault.New("--grace is negative", "use 0 to kill at once")
	}
	below := negative("use 0 for no limit",
		limit{"--timeout", o.Timeout < 0}, limit{"--pids", o.Pids < 0}, limit{"--cpus", o.CPUs < 0})
	return cmp.Or(below, checkBackend(o.Backend))
}

// limit is a flag, and whether it is below zero.
type limit struct {
	flag     string
	negative bool
}

func negative(hint string, limits ...limit) error {
	for _, l := range limits {
		if l.negative {
			return fault.New(l.flag+" is negative", hint)
		}
	}
	return nil
}
