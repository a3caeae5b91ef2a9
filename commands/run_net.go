package commands

import (
	"fmt"
	"strings"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// door is the job's way out, nil when it has none. Who types the command is the
// operator, so --net is both lists.
func (o *runOptions) door() (runner.Door, error) {
	if len(o.Net) == 0 {
		return nil, nil
	}
	if _, err := policy.New(o.Net, nil); err != nil {
		return nil, fault.Wrap(err, "--net", "write HOST, *.HOST, http://HOST/PATH or tcp://HOST:PORT").WithCode(string(job.ReasonRejected))
	}
	p, err := policy.New(o.Net, o.NetCIDR)
	if err != nil {
		return nil, fault.Wrap(err, "--net-private", "write a network, such as 10.1.0.0/16").WithCode(string(job.ReasonRejected))
	}
	up, err := o.upstream()
	if err != nil {
		return nil, err
	}
	return egress.Local{Proxy: proxy.New(proxy.Config{Operator: p, Upstream: up, Log: o.Log})}, nil
}

// maxShown is how many kinds of refusals a person is told.
const maxShown = 5

// sayRefused tells what the job wanted to reach and could not.
func (o *runOptions) sayRefused(res job.Result) {
	if what := refusals(res); what != "" {
		o.say(what, "allow a host with --net, if the job should reach it; docs/egress.md explains the reasons")
	}
}

// refusals are what a person is told of them, "" when there are none.
func refusals(res job.Result) string {
	if res.Egress == nil || res.Egress.Refused == 0 {
		return ""
	}
	var kinds []string
	for _, r := range res.Egress.Refusals {
		where := "a request"
		if r.Host != "" {
			where = fmt.Sprintf("%s:%d", r.Host, r.Port)
		}
		kinds = append(kinds, fmt.Sprintf("%s (%s, %d times)", where, r.Reason, r.Count))
		if len(kinds) == maxShown {
			break
		}
	}
	noun := "connections"
	if res.Egress.Refused == 1 {
		noun = "connection"
	}
	return fmt.Sprintf("the job was refused %d %s: %s", res.Egress.Refused, noun, strings.Join(kinds, ", "))
}
