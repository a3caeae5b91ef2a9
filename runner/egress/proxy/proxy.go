// Package proxy lets the connections of one job's step out: it reads what the client
// asks for (CONNECT, plain HTTP, SOCKS5), decides on the name, resolves it, checks
// the address it dials, and moves bytes. Whatever the client sends is hostile.
package proxy

import (
	"cmp"
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
)

// Conn is a connection in both directions; net.TCPConn and agent.Conn are. Close
// ends a pending Read or Write.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite ends the direction away from here.
	CloseWrite() error
}

// Resolver looks up the addresses of a name.
type Resolver interface {
	Lookup(ctx context.Context, name policy.Name) ([]netip.Addr, error)
}

// Dialer connects to an address. It calls check with the very address it connects
// to, and gives up when that fails.
type Dialer interface {
	Dial(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (Conn, error)
}

// Config is what an operator sets. The zero value allows nothing.
type Config struct {
	// Operator is what any job may reach at most.
	Operator policy.Policy
	// Upstream is the operator's own proxy for a host, nil for none. What goes
	// through it is resolved there, so its addresses can't be checked here.
	Upstream func(scheme policy.Scheme, name policy.Name, port uint16) (*url.URL, error)
	Resolver Resolver
	Dialer   Dialer
	// Roots vouch for the hosts of secrets, and for the operator's own proxy; nil are
	// this system's, or those of SSL_CERT_FILE.
	Roots  *x509.CertPool
	Limits Limits
	// Log is the access log: one line for each connection. nil discards it.
	Log *slog.Logger
}

// Limits bound a session, which is one step of a job. Zero is the default.
type Limits struct {
	// Conns is how many connections may be open at once.
	Conns int
	// Bytes is how much all of the job's may carry, both directions together, with those of
	// its steps before.
	Bytes int64
	// Head is the time a client has to say what it wants, Idle how long nothing may
	// move, Total how long a connection may last.
	Head, Idle, Total time.Duration
}

// DefaultLimits hold where nothing else is said.
var DefaultLimits = Limits{
	Conns: 512, Bytes: 16 << 30,
	Head: 30 * time.Second, Idle: 5 * time.Minute, Total: 2 * time.Hour,
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	return Limits{
		Conns: cmp.Or(l.Conns, d.Conns), Bytes: cmp.Or(l.Bytes, d.Bytes),
		Head: cmp.Or(l.Head, d.Head), Idle: cmp.Or(l.Idle, d.Idle), Total: cmp.Or(l.Total, d.Total),
	}
}

// Proxy serves the sessions of many jobs.
type Proxy struct{ cfg Config }

// New makes a proxy.
func New(cfg Config) *Proxy {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = SystemResolver{}
	}
	if cfg.Dialer == nil {
		cfg.Dialer = SystemDialer{}
	}
	return &Proxy{cfg}
}
