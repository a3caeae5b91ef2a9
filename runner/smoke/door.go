package smoke

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
)

// The one server that the door's probes may reach, and where it is said to be. Names
// below private lead to what must not be reached.
const (
	allowedHost = "allowed.quavon.example"
	private     = ".private.quavon.example"
)

var allowedAddr = netip.MustParseAddr("198.41.0.4")

// allowed are the rules of the step with the door: operator's and job's alike.
var allowed = []string{"http://" + allowedHost, allowedHost, "http://*" + private, "*" + private}

// runnerWith is the runner with another way out.
func (b *Bench) runnerWith(d runner.Door) (Runner, error) {
	if d == nil {
		return b.Runner, nil
	}
	if b.WithDoor != nil {
		return b.WithDoor(d), nil
	}
	r, ok := b.Runner.(*runner.Runner)
	if !ok {
		return nil, errors.New("the runner can't be given a door")
	}
	with := *r
	with.Door = d
	return &with, nil
}

// plantDoor makes the way out: the proxy of every job, in front of names and servers of
// the test's own.
func plantDoor(b *Bench) error {
	if b.door != nil {
		return nil
	}
	w, err := b.World()
	if err != nil {
		return err
	}
	rules, err := policy.New(allowed, nil)
	if err != nil {
		return err
	}
	net := outside{w}
	b.door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules, Resolver: net, Dialer: net})}
	return nil
}

// outside plays name servers and servers.
type outside struct{ w *World }

// forbidden are addresses that names below private lead to.
var forbidden = map[policy.Name]netip.Addr{
	"metadata" + private: netip.MustParseAddr("169.254.169.254"), "loopback" + private: netip.MustParseAddr("127.0.0.1"),
	"lan" + private: netip.MustParseAddr("10.1.2.3"), "shared" + private: netip.MustParseAddr("100.64.0.1"),
	"mapped" + private: netip.MustParseAddr("::ffff:10.1.2.3"), "nat64" + private: netip.MustParseAddr("64:ff9b::a01:203"),
	"sixtofour" + private: netip.MustParseAddr("2002:a01:203::1"), "ula" + private: netip.MustParseAddr("fd00:ec2::254"),
}

// Lookup implements proxy.Resolver. What is asked for is seen: a name can carry a
// secret out.
func (o outside) Lookup(_ context.Context, name policy.Name) ([]netip.Addr, error) {
	o.w.see([]byte(name))
	if name == allowedHost {
		return []netip.Addr{allowedAddr}, nil
	}
	if a, ok := forbidden[name]; ok {
		return []netip.Addr{a}, nil
	}
	return nil, errors.New("no such host")
}

// Dial implements proxy.Dialer. Wherever it leads, a listener sees it.
func (o outside) Dial(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (proxy.Conn, error) {
	if err := check(addr.Addr()); err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(o.w.hosts[0], o.w.port).String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil //nolint:errcheck,forcetypeassert // the network is tcp
}

// knock is an attempt at the door: what is said, with the attempt's own token in it,
// and what is said behind an answer that lets it through.
type knock struct {
	sub  string
	make func(token string) (say, then string)
}

// get asks for a page by the way of a proxy. TOKEN in the host is replaced.
func get(sub, host string) knock {
	return knock{sub, func(token string) (string, string) {
		host := strings.ReplaceAll(host, "TOKEN", token)
		return "GET http://" + host + "/" + token + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n", ""
	}}
}

// tunnel asks for a tunnel and then for a page in it.
func tunnel(sub, target string) knock {
	return knock{sub, func(token string) (string, string) {
		target := strings.ReplaceAll(target, "TOKEN", token)
		return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n", "GET /" + token + " HTTP/1.1\r\nHost: x\r\n\r\n"
	}}
}

// raw says exactly this.
func raw(sub, say, then string) knock {
	return knock{sub, func(token string) (string, string) {
		return strings.ReplaceAll(say, "TOKEN", token), strings.ReplaceAll(then, "TOKEN", token)
	}}
}

// doorway is an entry whose attempts go through the door, and must be turnedAway there.
type doorway struct {
	Entry
	knocks []knock
}

// Subs of the connection that is allowed.
const (
	allowedBefore = "allowed-before"
	allowedAfter  = "allowed-after"
)

// turnedAway are the answers of the proxy that end it: its own, or the end of a tunnel
// before a byte was sent on.
var turnedAway = []string{"HTTP 400", "HTTP 403", "HTTP 405", "HTTP 431", "HTTP 501", "SOCKS 2", "tunnel closed"}

func (d doorway) entry() Entry {
	e := d.Entry
	e.Group, e.Inside, e.Door = GroupNetwork, []string{e.ID}, true
	e.Control = "the allowed server is reached by the same door before and after; the listeners and the name server see no attempt"
	prefix := strings.ToLower(e.ID[:2]) + "-"
	e.Plant = func(_ context.Context, b *Bench) error {
		if err := plantDoor(b); err != nil {
			return err
		}
		before, after := get(prefix+allowedBefore, allowedHost), get(prefix+allowedAfter, allowedHost)
		list := append([]knock{before}, d.knocks...)
		var params []string
		for _, k := range append(list, after) {
			params = append(params, k.param(b.Nonce))
		}
		b.Set(e.ID, params...)
		return nil
	}
	e.Judge = func(c *Case) Outcome { return d.judge(c, prefix) }
	return e
}

// param is what quavon-guest needs of an attempt.
func (k knock) param(nonce string) string {
	say, then := k.make(token(nonce, tokenInside, k.sub))
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return k.sub + " " + encode(say) + "." + encode(then)
}

func (d doorway) judge(c *Case, prefix string) Outcome {
	w, err := c.Bench.World()
	if err != nil {
		return Outcome{CouldNotRun, err.Error()}
	}
	for _, sub := range []string{prefix + allowedBefore, prefix + allowedAfter} {
		l := c.Find(d.ID, sub)
		if l == nil || l.Errno != "" || w.count(token(c.Bench.Nonce, tokenInside, sub)) == 0 {
			return d.withoutWay(c, sub, l)
		}
	}
	return d.attempts(c, w)
}

// withoutWay is the outcome when the allowed server isn't reached. Attempts that got
// through show a hole all the same.
func (d doorway) withoutWay(c *Case, sub string, l any) Outcome {
	w, err := c.Bench.World()
	if err != nil {
		return Outcome{CouldNotRun, err.Error()}
	}
	if o := d.attempts(c, w); o.Verdict == Broken {
		return o
	}
	return Outcome{CouldNotRun, fmt.Sprintf("%s: the allowed server can't be reached: %v", sub, l)}
}

func (d doorway) attempts(c *Case, w *World) Outcome {
	var expect []Expect
	var broken []string
	for _, k := range d.knocks {
		expect = append(expect, Expect{Probe: d.ID, Sub: k.sub, Held: turnedAway})
		if w.count(token(c.Bench.Nonce, tokenInside, k.sub)) > 0 {
			broken = append(broken, k.sub+" came out")
		}
	}
	o := c.attempts(expect)
	if len(broken) > 0 {
		return verdict(append(broken, o.Why), nil)
	}
	return o
}
