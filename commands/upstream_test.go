package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/fault"
)

// TestUpstream: which proxy of the caller's is asked for what.
func TestUpstream(t *testing.T) {
	t.Parallel()
	const tls, plain = "http://me:pa%2Fss@tls.example:3128", "https://plain.example"
	for name, c := range map[string]struct {
		env  map[string]string
		want string // for https, http, tcp, and a host of NO_PROXY
	}{
		"none":          {nil, "- - - -"},
		"for TLS":       {map[string]string{"HTTPS_PROXY": tls}, tls + " - " + tls + " -"},
		"for HTTP":      {map[string]string{"HTTP_PROXY": plain}, "- " + plain + " - -"},
		"small letters": {map[string]string{"https_proxy": tls, "http_proxy": plain}, tls + " " + plain + " " + tls + " -"},
		"the large one": {map[string]string{"HTTPS_PROXY": tls, "https_proxy": plain}, tls + " - " + tls + " -"},
		"no scheme":     {map[string]string{"HTTPS_PROXY": "tls.example:3128"}, "http://tls.example:3128 - http://tls.example:3128 -"},
	} {
		p := &program{LookupEnv: func(key string) (string, bool) {
			if key == "NO_PROXY" {
				return ".near.example", true
			}
			v, ok := c.env[key]
			return v, ok
		}}
		find, err := p.upstream()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, to := range []policy.Request{
			{Scheme: policy.HTTPS, Name: "a.example", Port: 443},
			{Scheme: policy.HTTP, Name: "a.example", Port: 80},
			{Scheme: policy.TCP, Name: "a.example", Port: 9418},
			{Scheme: policy.HTTPS, Name: "x.near.example", Port: 443},
		} {
			u, err := find(to.Scheme, to.Name, to.Port)
			switch {
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case u == nil:
				got = append(got, "-")
			default:
				got = append(got, u.String())
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	for _, bad := range []string{"http://me:s3cr%zz@proxy.example", "socks5://proxy.example:1080", "http://", "http://me:s3cr et@[proxy", ":3128"} {
		p := &program{LookupEnv: func(key string) (string, bool) {
			if key == "HTTPS_PROXY" {
				return bad, true
			}
			return "", false
		}}
		_, err := p.upstream()
		if err == nil || fault.Hint(err) == "" || !strings.Contains(err.Error(), "HTTPS_PROXY") || strings.Contains(fmt.Sprint(err, fault.Hint(err)), "s3cr") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
