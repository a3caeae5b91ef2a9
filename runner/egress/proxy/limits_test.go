package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/egress/egresstest"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/test/loopback"
)

// patience bounds what must happen, on a busy machine too.
const patience = time.Minute

// street is a session, and the hosts that it dials: each connection's end comes out of
// hosts.
type street struct {
	t       *testing.T
	session *Session
	hosts   chan *net.TCPConn
}

func newStreet(t *testing.T, limits Limits, operator, job []string) *street {
	t.Helper()
	ours, err1 := policy.New(operator, nil)
	theirs, err2 := policy.New(job, nil)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	s := &street{t: t, hosts: make(chan *net.TCPConn, 10)}
	s.session = New(Config{Operator: ours, Resolver: s, Dialer: s, Limits: limits}).Open(t.Context(), Grant{Policy: theirs})
	t.Cleanup(func() { s.session.Close() })
	return s
}

// Lookup implements Resolver.
func (s *street) Lookup(context.Context, policy.Name) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("198.41.0.4")}, nil
}

// Dial implements Dialer.
func (s *street) Dial(context.Context, netip.AddrPort, func(netip.Addr) error) (Conn, error) {
	here, there := egresstest.Pair(s.t)
	s.hosts <- there
	return here, nil
}

// enter is a client's connection; served is closed when the proxy is done with it.
func (s *street) enter() (here *net.TCPConn, served chan struct{}) {
	s.t.Helper()
	here, there := egresstest.Pair(s.t)
	_ = here.SetDeadline(time.Now().Add(patience))
	served = make(chan struct{})
	go func() {
		defer close(served)
		s.session.Serve(there)
	}()
	return here, served
}

const (
	rawRule   = "tcp://raw.example:9418"
	rawTunnel = "CONNECT raw.example:9418 HTTP/1.1\r\n\r\n"
	opened    = "HTTP/1.1 200 Connection established\r\n\r\n"
)

// tunnel is one that is open, with both its ends.
func (s *street) tunnel() (here, far *net.TCPConn, served chan struct{}) {
	s.t.Helper()
	here, served = s.enter()
	pass(s.t, "the tunnel", here, here, rawTunnel, opened)
	far = <-s.hosts
	_ = far.SetDeadline(time.Now().Add(patience))
	return here, far, served
}

// pass writes at one end, and reads at the other until what is wanted is there.
func pass(t *testing.T, what string, from, to net.Conn, say, want string) {
	t.Helper()
	if _, err := io.WriteString(from, say); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(to, got); err != nil || string(got) != want {
		t.Fatalf("%s: %q, %v; want %q", what, got[:n], err, want)
	}
}

// ended reads to the end of a connection, however that comes.
func ended(t *testing.T, what string, c net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection doesn't end", what)
	}
	return string(b)
}

func (s *street) refusals(reason string) (n int64) {
	for _, r := range s.session.Tally().Refusals {
		if r.Reason == reason {
			n += r.Count
		}
	}
	return n
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	s := newStreet(t, Limits{Conns: 2}, []string{rawRule}, []string{rawRule})
	first, far, served := s.tunnel()
	second, host, _ := s.tunnel()
	for range 3 {
		third, _ := s.enter()
		if got := ended(t, "one too many", third); !strings.HasPrefix(got, "HTTP/1.1 403 Refused by quavon: connection_limit") {
			t.Errorf("one too many: %q", got)
		}
	}
	pass(t, "the others go on", second, host, "hello", "hello")
	first.Close()
	far.Close()
	<-served
	s.tunnel() // there is room again
	if n := s.refusals("connection_limit"); n != 3 {
		t.Errorf("%d refusals", n)
	}
}

// TestByteLimit: both directions of all connections count together, and what is more
// than they may carry ends them.
func TestByteLimit(t *testing.T) {
	t.Parallel()
	s := newStreet(t, Limits{Bytes: 300}, []string{rawRule}, []string{rawRule})
	hundred := strings.Repeat("x", 100)
	client, host, served := s.tunnel()
	pass(t, "sent", client, host, hundred, hundred)
	pass(t, "received", host, client, hundred, hundred)
	other, far, _ := s.tunnel()
	pass(t, "on another connection", far, other, hundred, hundred)
	pass(t, "the last straw", client, host, "x", "x")
	if got := ended(t, "the client", client) + ended(t, "the host", host); got != "" {
		t.Errorf("more came: %q", got)
	}
	<-served
	late, _ := s.enter()
	if got := ended(t, "a late one", late); !strings.HasPrefix(got, "HTTP/1.1 403 Refused by quavon: byte_limit") {
		t.Errorf("a late one: %q", got)
	}
	if n := s.refusals("byte_limit"); n != 2 {
		t.Errorf("%d refusals", n)
	}
}

// TestStepsBeforeCount: what a job's steps before have moved, this one may not.
func TestStepsBeforeCount(t *testing.T) {
	t.Parallel()
	s := newStreet(t, Limits{Bytes: 300}, []string{rawRule}, []string{rawRule})
	after := func(moved int64) {
		s.session.Close()
		s.session = s.session.proxy.Open(t.Context(), Grant{Policy: s.session.grant.Policy, Moved: moved})
	}
	after(300)
	s.tunnel() // there is room for nothing more, and not yet too much
	after(301)
	here, _ := s.enter()
	if got := ended(t, "the client", here); !strings.HasPrefix(got, "HTTP/1.1 403 Refused by quavon: byte_limit") {
		t.Errorf("with more: %q", got)
	}
}

// TestTimeLimits: who says nothing, whose connection is quiet, and whose lasts too long
// is cut, and its host too.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	const short, long = 50 * time.Millisecond, time.Hour
	t.Run("nothing is asked", func(t *testing.T) {
		t.Parallel()
		s := newStreet(t, Limits{Head: short, Idle: long, Total: long}, []string{rawRule}, []string{rawRule})
		for _, say := range []string{"", "CONNECT raw.exa", "\x05"} {
			client, served := s.enter()
			_, _ = io.WriteString(client, say)
			if got := ended(t, say, client); got != "" {
				t.Errorf("%q was answered: %q", say, got)
			}
			<-served
		}
	})
	t.Run("nothing moves", func(t *testing.T) {
		t.Parallel()
		s := newStreet(t, Limits{Head: long, Idle: short, Total: long}, []string{rawRule}, []string{rawRule})
		client, served := s.enter()
		_, _ = io.WriteString(client, rawTunnel)
		ended(t, "the client", client)
		ended(t, "the host", <-s.hosts)
		<-served
	})
	t.Run("it lasts", func(t *testing.T) {
		t.Parallel()
		// A busy machine may let nothing move for a while, but not for so long.
		s := newStreet(t, Limits{Head: long, Idle: 8 * time.Second, Total: short}, []string{rawRule}, []string{rawRule})
		client, served := s.enter()
		_, _ = io.WriteString(client, rawTunnel)
		host := <-s.hosts
		go func() { _, _ = io.Copy(io.Discard, host) }()
		for _, err := client.Write([]byte("x")); err == nil; { // always something moves
			_, err = client.Write([]byte("x"))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection doesn't end")
			}
		}
		<-served
	})
}

// TestTheDialledAddressIsChecked: the system's dialer shows what it is about to connect to,
// and connects to nothing that is refused.
func TestTheDialledAddressIsChecked(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", loopback.Host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to := netip.MustParseAddrPort(l.Addr().String())
	var shown []netip.Addr
	no := errors.New("not there")
	check := func(answer error) func(netip.Addr) error {
		return func(a netip.Addr) error {
			shown = append(shown, a)
			return answer
		}
	}
	if c, err := (SystemDialer{}).Dial(t.Context(), to, check(no)); !errors.Is(err, no) {
		t.Errorf("it connected to what was refused: %v, %v", c, err)
	}
	c, err := (SystemDialer{}).Dial(t.Context(), to, check(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	came, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer came.Close()
	if from := c.(*net.TCPConn).LocalAddr().String(); came.RemoteAddr().String() != from {
		t.Errorf("the first that came was %s, not %s", came.RemoteAddr(), from)
	}
	if !slices.Equal(shown, []netip.Addr{to.Addr(), to.Addr()}) {
		t.Errorf("it showed %v", shown)
	}
}
