package commands

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// upstream finds the caller's own proxy for a host, from HTTPS_PROXY, HTTP_PROXY and
// NO_PROXY. One that can't be read is refused: without it, connections would go around it.
func (p *program) upstream() (func(policy.Scheme, policy.Name, uint16) (*url.URL, error), error) {
	read := func(name string) string { return cmp.Or(p.env(name), p.env(strings.ToLower(name))) }
	c := httpproxy.Config{HTTPProxy: read("HTTP_PROXY"), HTTPSProxy: read("HTTPS_PROXY"), NoProxy: read("NO_PROXY")}
	for name, value := range map[string]string{"HTTP_PROXY": c.HTTPProxy, "HTTPS_PROXY": c.HTTPSProxy} {
		if !isProxy(value) { // what it is may be a password
			return nil, fault.New(name+" is no URL of a proxy",
				"write http://[USER:PASSWORD@]HOST:PORT or https://..., with odd characters as %XX").WithCode(string(job.ReasonRejected))
		}
	}
	find := c.ProxyFunc()
	return func(scheme policy.Scheme, name policy.Name, port uint16) (*url.URL, error) {
		if scheme != policy.HTTP {
			scheme = policy.HTTPS
		}
		return find(&url.URL{Scheme: string(scheme), Host: fmt.Sprintf("%s:%d", name, port)})
	}, nil
}

// isProxy says whether a setting can be used, which "" and HOST:PORT can too.
func isProxy(value string) bool {
	if value == "" {
		return true
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	return err == nil && u.Hostname() != "" && (u.Scheme == "http" || u.Scheme == "https")
}
