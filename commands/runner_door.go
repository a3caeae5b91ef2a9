package commands

import (
	"context"
	"net"
	"strings"
	"unicode"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/fault"
)

// openDoor gives steps with a network their way out: by the egress service when the operator
// names one, else by this process for the registries that are named, else none. What it
// opens stays open until closeDoor, since jobs that drain need it.
func (o *runnerOptions) openDoor(ctx context.Context, r *runner.Runner) (closeDoor func(), err error) {
	closeDoor = func() {}
	if addr := o.settings.get(envEgressProxy); addr != "" {
		return o.remoteDoor(ctx, r, addr)
	}
	rules := strings.FieldsFunc(o.settings.get(envRegistries), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(rules) == 0 {
		return closeDoor, nil
	}
	p, err := policy.New(rules, nil)
	if err != nil {
		return nil, fault.Wrap(err, envRegistries, "write HOST or *.HOST, with commas between")
	}
	r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: p, Upstream: upstreamProxy, Log: o.Log})}
	return closeDoor, nil
}

// remoteDoor is the egress service at addr. Whether it runs shows when a step needs
// it: jobs without a network don't.
func (o *runnerOptions) remoteDoor(ctx context.Context, r *runner.Runner, addr string) (closeDoor func(), err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return nil, fault.New(envEgressProxy+" is no address", "write HOST:PORT of quavon egress, such as 10.201.255.1:3128")
	}
	client, err := o.openValkey(ctx, o.settings)
	if err != nil {
		return nil, err
	}
	r.Door = egress.Remote{Addr: addr, Tokens: token.Store{Client: client}, Log: o.Log}
	return client.Close, nil
}
