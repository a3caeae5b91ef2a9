package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/quavon/quavon/commands/interrupt"
	"github.com/quavon/quavon/installer"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/runtime"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/state"
)

// installOptions is everything quavon install, uninstall and rollback were asked for.
type installOptions struct {
	*program
	verb   string
	target *phase.Target

	Sandbox, DryRun, Yes, Retain, Purge bool

	Dir, Backend, Output, From string
	Accept, Ignore             []string
	Runsc, RunscSum, Lib       string
	DaemonJSON, DockerHost     string
	Secrets                    []string
	Network                    string

	Offline offlineOptions
	// bundle is what Offline names, opened.
	bundle *offline
	// shown says that stdout has its document.
	shown bool
}

const installLong = `Install Quavon's services into a directory, from a host with Docker to a sandbox that has
been proven, in phases: preflight, runtime, secrets, env, images, compose, wait, smoke.

What is as it should be already is left alone, so the same command also repairs, applies
a changed .env, and upgrades. A phase that fails is taken back; so is one whose process
was killed, by the next installation. Nothing of yours is overwritten: in daemon.json and
.env only our own entries change, secrets are made once and never again.

Without a terminal there are no questions: --yes answers them, and what may interrupt
others is accepted by name.`

const installExample = `  quavon install --sandbox --dry-run
  quavon install --sandbox --yes
  quavon install --sandbox --runsc gvisor.tar.zstd --yes`

func newInstall(p *program) *cobra.Command {
	o := &installOptions{program: p, verb: "install"}
	cmd := &cobra.Command{
		Use: "install", Short: "Install the services, and prove their sandboxes", Long: installLong, Example: installExample,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, runInstall) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.Sandbox, "sandbox", false, "with the sandbox runner; as when COMPOSE_PROFILES in .env already has sandbox")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would change, and change nothing")
	o.common(cmd)
	f.StringVar(&o.From, "from-phase", "", "begin with this phase, when those before it are done")
	f.BoolVar(&o.Retain, "retain", false, "leave a phase that failed as it is, to look at")
	f.StringVar(&o.Backend, "backend", "", "backend of the sandboxes: "+strings.Join(docker.Names, ", ")+" (default "+runtime.Backend+")")
	f.StringVar(&o.Runsc, "runsc", "", "runsc to install, or a gVisor release's archive, or its URL (default: the runsc beside quavon)")
	f.StringVar(&o.RunscSum, "runsc-sha512", "", "the archive's sha512 (default: from the file beside it with .sha512)")
	f.StringArrayVar(&o.Secrets, "secret", nil, "file that steps of image builds may mount and no image keeps: ID=FILE")
	f.StringVar(&o.Network, "network", "", "network of image builds: default, host or none")
	o.Offline.flags(f)
	f.StringSliceVar(&o.Ignore, "ignore", nil, "don't count these checks of the host: QDnnn")
	return cmd
}

const uninstallLong = `Take back what quavon install wrote, and nothing else: services, networks, the entry in
daemon.json, the settings in .env, gVisor. What others have changed since stays. Volumes
and secrets stay too, unless --purge is given.`

func newUninstall(p *program) *cobra.Command {
	o := &installOptions{program: p, verb: "uninstall"}
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Take back what install wrote", Long: uninstallLong, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, runUninstall) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.Purge, "purge", false, "also remove volumes, images and secrets")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would be taken back, and change nothing")
	o.common(cmd)
	return cmd
}

const rollbackLong = `Go back to the installation before the present one: its lock of images, compose file and
gVisor are put back, the services are brought in line with them, and tested.`

func newRollback(p *program) *cobra.Command {
	o := &installOptions{program: p, verb: "rollback"}
	cmd := &cobra.Command{
		Use: "rollback", Short: "Go back to the installation before", Long: rollbackLong, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, runRollback) },
	}
	cmd.Flags().SortFlags = false
	o.common(cmd)
	return cmd
}

// common are the flags that all three verbs have.
func (o *installOptions) common(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", ".", "directory of the installation")
	f.BoolVarP(&o.Yes, "yes", "y", false, "don't ask whether to make the changes")
	f.StringSliceVar(&o.Accept, "accept-risk", nil, "accept what may interrupt others, by name: "+phase.RestartDocker+
		"; a bundle of unknown origin: "+bundle.UnsignedRisk)
	f.StringVarP(&o.Output, "output", "o", "text", "text or json")
	f.StringVar(&o.DockerHost, "docker-host", "", "address of the Docker Engine; DOCKER_HOST, or its usual socket")
	f.StringVar(&o.Lib, "lib", runtime.DefaultLib, "directory for gVisor")
	f.StringVar(&o.DaemonJSON, "daemon-json", "", "dockerd's configuration (default: what dockerd itself reads)")
}

// run checks the flags, and gives the exit code to what became of it.
func (o *installOptions) run(cmd *cobra.Command, verb func(context.Context, *installOptions) error) error {
	if err := o.check(); err != nil {
		return &usageError{cmd, err}
	}
	// compose's parser tells of variables by this logger, and their names may be parts of passwords.
	logrus.SetLevel(logrus.PanicLevel)
	err := o.checkRights()
	if err == nil {
		err = verb(cmd.Context(), o)
	}
	if err != nil && o.Output == "json" && !o.shown {
		err = errors.Join(err, o.writeJSON(map[string]any{"schema": 1, "ok": false, "changed": false, "error": problem(err)}))
	}
	if sig := interrupt.Of(cmd.Context()); err != nil && sig != nil {
		return &exitError{ExitCode(sig.ExitCode()), err}
	}
	return err
}

func (o *installOptions) check() (err error) {
	switch {
	case o.Output != "text" && o.Output != "json":
		return fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use text or json")
	case o.Backend != "" && !slices.Contains(docker.Names, o.Backend):
		return fault.New(fmt.Sprintf("--backend %q can't be installed as a service of Docker", o.Backend),
			"use one of "+strings.Join(docker.Names, ", ")+"; docs/install.md says how runners outside Docker are set up")
	case o.From != "" && !slices.Contains(phase.Names, o.From):
		return fault.New(fmt.Sprintf("there is no phase %q", o.From), "use one of "+strings.Join(phase.Names, ", "))
	}
	for _, risk := range o.Accept {
		if risk != phase.RestartDocker && risk != bundle.UnsignedRisk {
			return fault.New(fmt.Sprintf("there is no risk %q", risk), "use "+phase.RestartDocker+" or "+bundle.UnsignedRisk)
		}
	}
	if err := checkNetwork(o.Network); err != nil {
		return err
	}
	if err := o.Offline.check(append(o.Secrets, o.Runsc, o.RunscSum, o.Network)...); err != nil {
		return err
	}
	const hint = "name a directory for the installation"
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return fault.Wrap(err, "--dir can't be found", hint)
	}
	if o.Dir == "/" {
		return fault.New("--dir can't be /", hint)
	}
	return nil
}

// again is the command line for another try of the same. A URL isn't repeated, as it may
// have a password.
func (o *installOptions) again() string {
	words := []string{"quavon", o.verb}
	add := func(is bool, more ...string) {
		if is {
			words = append(words, more...)
		}
	}
	add(o.Sandbox, "--sandbox")
	add(o.Purge, "--purge")
	add(o.Offline.Bundle != "", "--offline", fault.Word(o.Offline.Bundle))
	dir, err := os.Getwd()
	add(err != nil || dir != o.Dir, "--dir", fault.Word(o.Dir))
	add(o.Backend != "", "--backend", o.Backend)
	add(o.Lib != runtime.DefaultLib, "--lib", fault.Word(o.Lib))
	add(o.DockerHost != "", "--docker-host", fault.Word(o.DockerHost))
	add(o.DaemonJSON != "", "--daemon-json", fault.Word(o.DaemonJSON))
	return "`" + strings.Join(words, " ") + "`"
}

func runInstall(ctx context.Context, o *installOptions) (err error) {
	if o.bundle, err = o.openOffline(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.bundle.close()) }()
	in, show, err := o.installer()
	if err != nil {
		return err
	}
	plan, err := in.Plan(ctx)
	if err != nil {
		return err
	}
	if o.DryRun {
		return o.showPlan(show, plan)
	}
	if in.Ask != nil && len(installer.Changes(plan)) > 0 && !o.Yes {
		show.plan(o.IO.ErrOut, plan)
	}
	r, err := in.Install(ctx)
	show.close()
	return o.end(r, err, "installed in "+o.Dir)
}

func runUninstall(ctx context.Context, o *installOptions) error {
	in, show, err := o.installer()
	if err != nil {
		return err
	}
	changes, err := in.PlanUninstall(o.Purge)
	if err != nil {
		return err
	}
	plan := []installer.Planned{{Phase: o.verb, Changes: changes}}
	if o.DryRun {
		return o.showPlan(show, plan)
	}
	if in.Ask != nil && len(installer.Changes(plan)) > 0 && !o.Yes {
		show.plan(o.IO.ErrOut, plan)
	}
	r, err := in.Uninstall(ctx, o.Purge)
	show.close()
	return o.end(r, err, "uninstalled from "+o.Dir)
}

func runRollback(ctx context.Context, o *installOptions) error {
	in, show, err := o.installer()
	if err != nil {
		return err
	}
	r, err := in.Rollback(ctx)
	show.close()
	return o.end(r, err, "went back in "+o.Dir)
}

// checkRights wants root, and directories that nobody else can change: root writes there,
// and the journal says what root is to remove.
func (o *installOptions) checkRights() error {
	sudo := "sudo " + strings.Trim(o.again(), "`")
	switch root := os.Geteuid() == 0; {
	case o.DryRun && !root:
		o.note("note: only a dry run needs no root: %s", printable(sudo))
		return nil
	case o.DryRun:
		return nil
	case !root:
		return fault.New("an installation needs root", sudo)
	}
	for _, dir := range []string{o.Dir, (&phase.Target{Dir: o.Dir}).State()} {
		if err := state.Check(dir); err != nil {
			return fault.Wrap(err, "others could change "+dir, "use --dir with a directory of your own")
		}
	}
	return nil
}
