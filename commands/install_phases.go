package commands

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/host"
	"github.com/quavon/quavon/installer"
	"github.com/quavon/quavon/installer/compose"
	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/dotenv"
	"github.com/quavon/quavon/installer/env"
	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/runtime"
	"github.com/quavon/quavon/installer/secret"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker"
)

// installer puts the phases together with what they need of other verbs.
func (o *installOptions) installer() (*installer.Installer, *installView, error) {
	t, err := o.makeTarget()
	if err != nil {
		return nil, nil, err
	}
	o.target = t
	in := &installer.Installer{}
	accepted := func(risk string) bool { return slices.Contains(in.Accept, risk) } // also by an answer
	var images compose.Builder = &installImages{program: o.program, target: t, secrets: o.Secrets, network: o.Network}
	beside := func() (string, error) { return o.findRunsc("") }
	if o.bundle != nil {
		images = &offlineImages{offline: o.bundle, target: t}
		beside = func() (string, error) { return o.bundle.path(bundle.Runsc), nil }
	}
	gvisor := &runtime.Runtime{
		Target: t, Source: o.Runsc, SHA512: o.RunscSum, Lib: o.Lib, DaemonJSON: o.DaemonJSON, Accepted: accepted,
		Beside: beside, KVM: host.Real{}.CreateVM,
	}
	phases := []phase.Phase{
		&preflight{o},
		gvisor,
		&secret.Secrets{Target: t},
		&env.Env{Target: t, Backend: o.Backend, Shell: o.env},
	}
	phases = append(phases, compose.Phases(compose.Options{Target: t, Images: images, Smoke: o.smoke, Forget: forgetImage})...)
	show := newInstallView(o.program, o.Dir)
	*in = installer.Installer{
		Target: t, Phases: phases, View: show, Accept: o.Accept, Yes: o.Yes && !o.DryRun, Retain: o.Retain, From: o.From,
		Again: o.again(), Hurry: o.Hurry, Hold: func() (func() error, error) { return gvisor.Hold(t.State()) },
		Journal: journal.Options{Dir: t.State(), Version: ownVersion(), Revert: o.reverter(t), Data: func(path string) bool {
			return filepath.Dir(path) == t.Secrets()
		}, Shared: func(path string) (string, error) { return runtime.Shared(t.Dir, path) }},
	}
	if o.IO.InIsTerminal() && o.IO.ErrIsTerminal() {
		in.Ask = o.ask
	}
	return in, show, nil
}

// makeTarget finds out what the installation is about. Without an engine its socket is
// "", and the phases that need one say so.
func (o *installOptions) makeTarget() (*phase.Target, error) {
	t := &phase.Target{
		Dir: o.Dir, Sandbox: o.Sandbox, Backend: o.Backend, Version: ownVersion(), Bundle: o.Offline.Bundle,
	}
	if t.Backend == "" {
		t.Backend = runtime.Backend
	}
	e, err := o.findEngine()
	if o.DockerHost != "" {
		e, err = docker.Find(docker.Surroundings{Env: func(k string) string {
			return map[string]string{"DOCKER_HOST": o.DockerHost}[k]
		}})
	}
	if err != nil {
		return nil, err
	}
	t.Socket = e.Path()
	if !t.Sandbox {
		has, err := env.HasSandbox(t)
		if err != nil {
			return nil, err
		}
		t.Sandbox = has
	}
	return t, nil
}

// reverter takes our part out of files that others have changed since.
func (o *installOptions) reverter(t *phase.Target) func(string) journal.Revert {
	return func(path string) journal.Revert {
		switch {
		case filepath.Base(path) == filepath.Base(t.Env()):
			return dotenv.Revert
		case strings.HasSuffix(path, ".json") && filepath.Dir(path) != t.Dir:
			return func(before, after, now []byte) ([]byte, bool, error) {
				return daemonjson.Revert(runtime.Name, before, after, now)
			}
		}
		return nil
	}
}

// ask waits for an answer or a signal: nothing else ends a read of a terminal.
func (o *installOptions) ask(ctx context.Context, question string) (bool, error) {
	if _, err := fmt.Fprintf(o.IO.ErrOut, "%s [y/N] ", printable(question)); err != nil {
		return false, err
	}
	type typed struct {
		line string
		err  error
	}
	answer := make(chan typed, 1)
	go func() {
		line, err := bufio.NewReader(o.IO.In).ReadString('\n')
		answer <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(o.IO.ErrOut) // a line of its own for what is said next
		return false, context.Cause(ctx)
	case a := <-answer:
		if a.err != nil {
			return false, fault.Wrap(a.err, "read the answer", "add --yes")
		}
		word := strings.ToLower(strings.TrimSpace(a.line))
		return word == "y" || word == "yes", nil
	}
}

// preflight is the doctor's checks of the host, as a phase.
type preflight struct{ o *installOptions }

var _ phase.Phase = (*preflight)(nil)

// Name implements phase.Phase.
func (*preflight) Name() string { return phase.Preflight }

// ours are checks of what the installation itself brings.
var ours = []string{"QD916", "QD920", "QD921", "QD922", "QD943"}

// profiles is the check of COMPOSE_PROFILES. It follows no file that an override takes in, and
// what it can't find out for that compose is asked later.
const profiles = "QD936"

// Plan implements phase.Phase.
func (p *preflight) Plan(ctx context.Context) ([]phase.Change, error) {
	c := (&doctorOptions{program: p.o.program}).hostConfig()
	c.Socket = func() (path, from string, err error) { return p.o.target.Socket, "the installation", nil }
	all := slices.DeleteFunc(host.Checks(c), func(c *doctor.Check) bool { return slices.Contains(ours, c.Code) })
	ignore, err := doctor.Ignore(all, p.o.Ignore)
	if err != nil {
		return nil, err
	}
	r := doctor.Run(ctx, all, ignore)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var broken []string
	fix := ""
	for _, x := range r.Results {
		if x.Ignored || x.State != doctor.Fail && x.State != doctor.Error || x.Code == profiles && x.State == doctor.Error {
			continue
		}
		broken = append(broken, x.Code+": "+x.Message)
		if fix == "" {
			fix = x.Fix
		}
	}
	if len(broken) > 0 {
		return nil, fault.New("this host isn't ready: "+strings.Join(broken, "; "), fix+"; `quavon doctor` says more")
	}
	n := r.Counts()
	return []phase.Change{{
		Action: phase.Check, Target: "host", Summary: fmt.Sprintf("%d checks hold, %d warn: `quavon doctor` shows them",
			n[doctor.Pass], n[doctor.Warn]),
	}}, nil
}

// Apply implements phase.Phase.
func (*preflight) Apply(context.Context, phase.Tx, phase.Reporter) error { return nil }

// Undo implements phase.Phase.
func (*preflight) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error { return nil }
