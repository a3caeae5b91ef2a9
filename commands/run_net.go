package commands

import (
	"fmt"
	"net/http"
	"net/url"
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
	return egress.Local{Proxy: proxy.New(proxy.Config{Operator: p, Upstream: upstreamProxy, Log: o.Log})}, nil
}

// upstreamProxy is the caller's own proxy, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
func upstreamProxy(scheme policy.Scheme, name policy.Name, port uint16) (*url.URL, error) {
	if scheme != policy.HTTP {
		scheme = policy.HTTPS
	}
	to := &url.URL{Scheme: string(scheme), Host: fmt.Sprintf("%s:%d", name, port)}
	return http.ProxyFromEnvironment(&http.Request{URL: to})
}

// maxShown is how many kinds of refusals a person is told.
const maxShown = 5

// sayRefused tells what the job wanted to reach and could not.
func (o *runOptions) sayRefused(res job.Result) {
	if res.Egress == nil || res.Egress.Refused == 0 {
		return
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
	o.say(fmt.Sprintf("the job was refused %d connections: %s", res.Egress.Refused, strings.Join(kinds, ", ")),
		"allow a host with --net, if the job should reach it; docs/egress.md explains the reasons")
}
