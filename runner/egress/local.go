// Package egress is the way out of the steps that have a network: the door of a
// runner whose proxy is in the same process, and of one whose proxy is a service.
package egress

import (
	"context"
	"errors"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Local is a door with its proxy in this process.
type Local struct{ *proxy.Proxy }

var _ runner.Door = Local{}

// Check implements runner.Door.
func (l Local) Check(allow []string) error {
	_, err := jobPolicy(allow)
	return err
}

// jobPolicy reads a job's own list.
func jobPolicy(allow []string) (policy.Policy, error) {
	if len(allow) == 0 {
		return policy.Policy{}, fault.Wrap(errors.New("it is empty"), "a step with a network",
			"name the hosts that it may reach, or leave its network out")
	}
	p, err := policy.New(allow, nil)
	if err != nil {
		return p, fault.Wrap(err, "can't allow it", "write HOST, *.HOST, http://HOST/PATH or tcp://HOST:PORT")
	}
	return p, nil
}

// Open implements runner.Door.
func (l Local) Open(ctx context.Context, o runner.Opening) (runner.Passage, error) {
	p, err := jobPolicy(o.Allow)
	if err != nil {
		return nil, err
	}
	g := proxy.Grant{Job: o.Job, Step: o.Step, Policy: p, Secrets: o.Secrets, Moved: o.Moved}
	if len(o.Secrets) == 0 {
		return passage{l.Proxy.Open(ctx, g)}, nil
	}
	if g.Authority, err = authority(o.Secrets); err != nil {
		return nil, err
	}
	return trusted{passage{l.Proxy.Open(ctx, g)}, g.Authority.PEM()}, nil
}

// passage is a session of the proxy.
type passage struct{ session *proxy.Session }

func (p passage) Carry(conn *agent.Conn) { p.session.Serve(conn) }
func (p passage) Close() job.Egress      { return p.session.Close() }
