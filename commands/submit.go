package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// submitOptions are what quavon submit was asked for.
type submitOptions struct {
	*program
	settings *settings

	Argv      []string
	JobFile   string
	Workspace string
	Ref       string
	Image     string
	User      string
	Env       []string
	Net       []string
	Secrets   []string
	Patch     string
	Collect   []string
	Out       string
	JSON      string
	Tenant    string
	Priority  string
	StartIn   time.Duration
	Attempts  int

	Detach bool
	Wait   string
	Cancel string

	CPUs                      float64
	Memory, Disk, OutputLimit byteSize
	Pids                      int64
	Timeout                   time.Duration
	asked                     func(flag string) bool
}

const submitLong = `Send a job to the runners of a queue, follow what it prints, and exit as it did.

The job is a command, or a job file with several steps (docs/job.schema.json). The
current directory, or a git ref of its repository, is sent along and appears at
/workspace. Nothing is written to it: --patch and --collect hand back what the job
made. The result counts only when it is signed by the queue's key.

When no healthy runner offers what the job wants, it is refused at once.

The queue's own secrets have no flags: VALKEY_URL, or VALKEY_URL_FILE and others that
"quavon runner --print-config" lists, and QUAVON_SANDBOX_SIGNING_KEY_FILE. --secret
gives the job a credential that it uses without seeing it; it travels sealed.`

const submitExample = `  quavon submit -- make test
  quavon submit --image node22 --patch fix.diff -- npm run codemod
  quavon submit --job ci.json --ref main --collect 'reports/**' --out results
  quavon submit --net api.example --secret id=TOKEN,url=https://api.example/v1,header=Authorization,env=MY_TOKEN -- ./fetch.sh
  id=$(quavon submit --detach -- make test); quavon submit --wait "$id"
  quavon submit --cancel "$id"`

func newSubmit(p *program, run func(context.Context, *submitOptions) error) *cobra.Command {
	o := &submitOptions{program: p, settings: newSettings(queueSettings()...)}
	cmd := &cobra.Command{
		Use: "submit [flags] -- COMMAND [ARG...]", Short: "Send a job to the runners of a queue",
		Long: submitLong, Example: submitExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Argv, o.asked = args, cmd.Flags().Changed
			if err := o.check(); err != nil {
				return &usageError{cmd, err}
			}
			if err := o.settings.load(p, cmd.Flags().Changed); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *submitOptions) flags(f *pflag.FlagSet) {
	f.SetInterspersed(false) // what follows the command is the command's
	f.SortFlags = false
	f.StringVar(&o.JobFile, "job", "", `job file to run instead of a command; "-" is stdin`)
	f.StringVarP(&o.Workspace, "workspace", "w", ".", `directory to send; "none" for none`)
	f.StringVar(&o.Ref, "ref", "", "send this commit, branch or tag of the workspace's repository instead of its files")
	f.StringVarP(&o.Image, "image", "i", "", "image to run in: a name of the lock, or a digest; the runner's own toolchain without")
	f.StringVarP(&o.User, "user", "u", "", "user of the image to run as: NAME, UID or UID:GID")
	f.StringArrayVarP(&o.Env, "env", "e", nil, "KEY=VALUE for the job, or KEY to pass yours on (repeatable)")
	f.StringSliceVar(&o.Net, "net", nil,
		"HOST[,HOST...] to let the command reach, as quavon run --net, as far as the runner's operator allows it")
	f.StringArrayVar(&o.Secrets, "secret", nil, secretUsage)
	f.StringVar(&o.Patch, "patch", "", `write the job's changes as a git patch to this file; "-" is stdout`)
	f.StringArrayVar(&o.Collect, "collect", nil, "hand back files of the workspace that match this pattern (repeatable); needs --out")
	f.StringVar(&o.Out, "out", "", "directory for what --collect finds")
	f.Float64Var(&o.CPUs, "cpus", 0, "processors the job may use, such as 1.5")
	f.Var(&o.Memory, "memory", "memory of the job and its sandbox, without swap; 0 is the runner's default")
	f.Int64Var(&o.Pids, "pids", 0, "processes and threads of the job; 0 is the runner's default")
	f.Var(&o.Disk, "disk", "files the job can write, all together; 0 is the runner's default")
	f.DurationVar(&o.Timeout, "timeout", time.Hour, "end the job after this long")
	f.Var(&o.OutputLimit, "output-limit", "end the job when it has printed this much; 0 is the runner's default")
	f.StringVar(&o.JSON, "json", "", "write the result as JSON to stdout, and the job's output to stderr; or =FILE")
	f.Lookup("json").NoOptDefVal = "-"
	f.StringVar(&o.Tenant, "tenant", "", `whose job it is: tenants take turns (default "default")`)
	f.StringVar(&o.Priority, "priority", "", "batch, or interactive to go before all batch jobs (default batch)")
	f.DurationVar(&o.StartIn, "start-in", 0, "give up when no runner has taken the job by then (default 10m)")
	f.IntVar(&o.Attempts, "attempts", 0, "how many runners may be lost with the job (default 3)")
	f.BoolVarP(&o.Detach, "detach", "d", false, "print the job's id and leave it to itself")
	f.StringVar(&o.Wait, "wait", "", "wait for a job that was submitted before, by its id")
	f.StringVar(&o.Cancel, "cancel", "", "cancel a job, by its id")
	o.settings.register(f)
}

// check refuses contradictions that need no look at the host.
func (o *submitOptions) check() error {
	ways := 0
	for _, given := range []bool{len(o.Argv) > 0, o.JobFile != "", o.Wait != "", o.Cancel != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		return fault.New("there is no command to run", "write it behind --, such as: quavon submit -- make test")
	case ways > 1:
		return fault.New("a command, --job, --wait and --cancel exclude each other", "give one of them")
	case o.Detach && (o.Wait != "" || o.Cancel != "" || o.Patch != "" || o.JSON != "" || o.Out != ""):
		return fault.New("--detach hands nothing back", "give --patch, --out and --json to `quavon submit --wait ID` later")
	case len(o.Net) > 0 && len(o.Argv) == 0:
		return fault.New("--net is for a command", "a job file says what its steps may reach: allow, and network")
	case len(o.Secrets) > 0 && len(o.Net) == 0 && o.JobFile == "":
		return fault.New("--secret without --net", "name the host of its url: --net HOST")
	case o.Ref != "" && o.Workspace == "none":
		return fault.New("--ref needs the workspace's repository", "leave out --workspace none")
	case o.Patch == "-" && o.JSON == "-":
		return fault.New("--patch - and --json both want stdout", "give one of them a file")
	case o.Out != "" && len(o.Collect) == 0 && o.JobFile == "" && o.Wait == "":
		return fault.New("--out without --collect", "say which files: --collect 'PATTERN'")
	case len(o.Collect) > 0 && o.Out == "" && !o.Detach:
		return fault.New("--collect without --out", "name a directory for the files: --out DIR")
	}
	for flag, id := range map[string]string{"--wait": o.Wait, "--cancel": o.Cancel} {
		if id != "" && !job.ValidID(id) {
			return fault.New(fmt.Sprintf("%s %.80q is no job's id", flag, id), "write the one that `quavon submit --detach` printed")
		}
	}
	return negative("leave it out for the default", limit{"--timeout", o.Timeout < 0}, limit{"--start-in", o.StartIn < 0},
		limit{"--attempts", o.Attempts < 0}, limit{"--pids", o.Pids < 0}, limit{"--cpus", o.CPUs < 0})
}

// job is the job that the flags and the job file ask for. Flags count more.
func (o *submitOptions) job() (client.Job, error) {
	var j client.Job
	if o.JobFile != "" {
		var err error
		if j, err = o.readJob(); err != nil {
			return j, err
		}
	} else {
		j.Steps = []client.Step{{Run: o.Argv}}
		if len(o.Net) > 0 {
			j.Allow, j.Steps[0].Network = o.Net, job.NetworkRegistries
		}
	}
	o.override(&j)
	if err := o.addEnv(&j); err != nil {
		return j, err
	}
	image, err := o.imageDigest(j.Image)
	j.Image = image
	return j, err
}

func (o *submitOptions) override(j *client.Job) {
	for flag, set := range map[string]func(){
		"image":        func() { j.Image = o.Image },
		"user":         func() { j.User = o.User },
		"collect":      func() { j.Collect = o.Collect },
		"patch":        func() { j.Patch = true },
		"cpus":         func() { j.Limits.CPUs = o.CPUs },
		"memory":       func() { j.Limits.Memory = client.Size(o.Memory) },
		"pids":         func() { j.Limits.Pids = o.Pids },
		"disk":         func() { j.Limits.Disk = client.Size(o.Disk) },
		"output-limit": func() { j.Limits.Output = client.Size(o.OutputLimit) },
		"timeout":      func() { j.Limits.Time = client.Duration(o.Timeout) },
		"tenant":       func() { j.Tenant = o.Tenant },
		"priority":     func() { j.Priority = client.Priority(o.Priority) },
		"start-in":     func() { j.StartIn = client.Duration(o.StartIn) },
		"attempts":     func() { j.Attempts = o.Attempts },
	} {
		if o.asked(flag) {
			set()
		}
	}
}

// addEnv gives every step the variables of --env.
func (o *submitOptions) addEnv(j *client.Job) error {
	for _, e := range o.Env {
		k, v, ok := strings.Cut(e, "=")
		if !ok {
			if v, ok = o.LookupEnv(k); !ok {
				continue // as with quavon run
			}
		}
		if k == "" {
			return fault.New(fmt.Sprintf("--env %.40q has no name", e), "write KEY=VALUE")
		}
		for i := range j.Steps {
			if j.Steps[i].Env == nil {
				j.Steps[i].Env = map[string]string{}
			}
			j.Steps[i].Env[k] = v
		}
	}
	return nil
}
