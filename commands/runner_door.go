package commands

import (
	"context"
	"net"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
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
	p, err := o.settings.policy()
	if err != nil {
		return nil, err
	}
	if len(p.Rules) == 0 {
		return closeDoor, nil
	}
	up, err := o.upstream()
	if err != nil {
		return nil, err
	}
	r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: p, Upstream: up, Log: o.Log})}
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
