package commands

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/fault"
)

// egressOptions are what quavon egress was asked for.
type egressOptions struct {
	*program
	settings *settings
	// Check asks a service instead of being one.
	Check bool
}

const egressLong = `Let the steps of jobs that have a network out, to the hosts that the operator and the
job both allow. Runners connect to it, with a token for each step that it looks up in
Valkey; sandboxes have no network to reach it by.

--check asks the service that listens at --listen whether it can read tokens, as health
checks of containers do. The allow list has the form of quavon run --net. Every connection is one JSON line on
stderr.`

const egressExample = `  quavon egress --registries registry.example,http://mirror.example/debian \
    --valkey-url-file /run/secrets/valkey_egress_url
  quavon egress --check --listen 10.201.255.1:3128`

// Names of the egress service's settings; envRegistries and envEgressPrivate are the
// runner's too.
const (
	envEgressListen  = "QUAVON_SANDBOX_EGRESS_LISTEN"
	envEgressPrivate = "QUAVON_SANDBOX_EGRESS_PRIVATE"
)

func egressSettings() []*setting {
	list := []*setting{
		{name: envRegistries, flag: "registries", help: "hosts that jobs may reach at most, separated by commas"},
		{name: envEgressListen, flag: "listen", def: ":3128", help: "address to listen on for runners"},
		{name: envEgressPrivate, flag: "private", help: "private networks (CIDR) that allowed names may lead to, separated by commas"},
	}
	for _, x := range queueSettings() {
		if strings.HasPrefix(x.name, "VALKEY_") {
			list = append(list, x)
		}
	}
	return list
}

func newEgress(p *program, run func(context.Context, *egressOptions) error) *cobra.Command {
	o := &egressOptions{program: p, settings: newSettings(egressSettings()...)}
	cmd := &cobra.Command{
		Use: "egress", Short: "Let jobs' steps out to allowed hosts", Long: egressLong, Example: egressExample,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, value := range map[string]*string{"log-level": &p.logLevel, "log-format": &p.logFormat} {
				if !cmd.Flags().Changed(flag) { // the access log, for programs
					*value = map[string]string{"log-level": slog.LevelInfo.String(), "log-format": "json"}[flag]
				}
			}
			if err := p.openLog(); err != nil {
				return err
			}
			return o.settings.serve(p, cmd, func() error { return run(cmd.Context(), o) })
		},
	}
	o.settings.registerService(cmd.Flags())
	cmd.Flags().BoolVar(&o.Check, "check", false, "ask the running service whether it works, and end: exit code 0 or 1")
	return cmd
}

// policy is what any job may reach at most.
func (s *settings) policy() (policy.Policy, error) {
	rules := words(s.get(envRegistries))
	if p, err := policy.New(rules, nil); err != nil {
		return p, fault.Wrap(err, envRegistries, "write HOST, *.HOST, http://HOST/PATH or tcp://HOST:PORT, separated by commas")
	}
	p, err := policy.New(rules, words(s.get(envEgressPrivate)))
	if err != nil {
		return p, fault.Wrap(err, envEgressPrivate, "write networks, such as 10.1.0.0/16, separated by commas")
	}
	return p, nil
}

// words splits a list at its commas. Blanks around an entry go, those in it stay.
func words(list string) (out []string) {
	for e := range strings.SplitSeq(list, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// checkListen refuses what can't be listened on wherever this is, before Valkey is waited for.
func checkListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fault.New(fmt.Sprintf("%s %.80q is no address", envEgressListen, addr),
			"write :PORT or ADDRESS:PORT, such as 10.201.255.1:3128")
	}
	return nil
}

// runEgress serves until ctx ends.
func runEgress(ctx context.Context, o *egressOptions) error {
	if o.Check {
		if err := egress.Check(ctx, o.settings.get(envEgressListen)); err != nil {
			return fault.Wrap(err, "the egress service can't serve", "look at its log, and at Valkey")
		}
		return nil
	}
	p, err := o.settings.policy()
	if err != nil {
		return err
	}
	if len(p.Rules) == 0 { // off by default, in an installation where the service runs
		o.Log.Warn("no registries are named: everything is refused", "setting", envRegistries)
	}
	up, err := o.upstream()
	if err != nil {
		return err
	}
	if err := checkListen(o.settings.get(envEgressListen)); err != nil {
		return err
	}
	client, err := o.openValkey(ctx, o.settings)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.settings.get(envEgressListen))
	if err != nil {
		return fault.Wrap(err, "can't listen", "choose another address with --listen")
	}
	o.Log.Info("egress service started", "listen", l.Addr().String(), "rules", len(p.Rules))
	s := &egress.Service{
		Proxy:  proxy.New(proxy.Config{Operator: p, Upstream: up, Log: o.Log}),
		Tokens: token.Store{Client: client}, Log: o.Log,
	}
	return s.Serve(ctx, l)
}
