package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
)

const (
	lookupTime = 10 * time.Second
	// dialTime bounds one address, dialAll all of them.
	dialTime = 10 * time.Second
	dialAll  = 30 * time.Second
	// maxAddrs is how many addresses of a name are tried.
	maxAddrs = 8
)

// SystemResolver asks as this host does.
type SystemResolver struct{}

// Lookup implements Resolver. The final dot keeps search domains out of it.
func (SystemResolver) Lookup(ctx context.Context, name policy.Name) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", string(name)+".")
}

// SystemDialer connects over this host's network.
type SystemDialer struct{}

// Dial implements Dialer: the check sees what the kernel is about to connect to.
func (SystemDialer) Dial(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (Conn, error) {
	d := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return check(to.Addr())
	}}
	c, err := d.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil //nolint:errcheck,forcetypeassert // the network is tcp
}

// errNowhere is a name whose addresses can't be reached.
var errNowhere = errors.New("no address answers")

// dial connects to a name that was allowed: through the operator's proxy, or to the
// first of its addresses that may be dialled and answers.
func (s *Session) dial(ctx context.Context, q policy.Request) (Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialAll, errNowhere)
	defer cancel()
	up, err := s.upstream(q)
	if err != nil {
		return nil, err
	}
	if up != nil {
		return s.dialUpstream(ctx, up, q)
	}
	addrs, err := s.lookup(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	return s.dialFirst(ctx, addrs, q.Port)
}

func (s *Session) lookup(ctx context.Context, name policy.Name) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTime, errors.New("no answer of the name server"))
	defer cancel()
	addrs, err := s.proxy.cfg.Resolver.Lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", name, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("resolve %s: it has no address", name)
	}
	return addrs[:min(len(addrs), maxAddrs)], nil
}

// dialFirst tries addresses in order. One that is forbidden is passed over; when all
// are, that is the error.
func (s *Session) dialFirst(ctx context.Context, addrs []netip.Addr, port uint16) (Conn, error) {
	check := s.proxy.cfg.Operator.Addresses.Check
	var errs []error
	for _, a := range addrs {
		err := check(a)
		if err == nil {
			var conn Conn
			if conn, err = s.dialOne(ctx, netip.AddrPortFrom(a.Unmap(), port), check); err == nil {
				return conn, nil
			}
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (s *Session) dialOne(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, errNowhere)
	defer cancel()
	return s.proxy.cfg.Dialer.Dial(ctx, addr, check)
}

// onlyForbidden says whether every address of a name was forbidden.
func onlyForbidden(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return isForbidden(err)
	}
	for _, e := range joined.Unwrap() {
		if !isForbidden(e) {
			return false
		}
	}
	return true
}

func isForbidden(err error) bool {
	var f *policy.AddressError
	return errors.As(err, &f)
}
