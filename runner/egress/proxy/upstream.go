package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/quavon/quavon/runner/egress/policy"
)

// upstream is the operator's proxy for a request, nil for none.
func (s *Session) upstream(q policy.Request) (*url.URL, error) {
	if s.proxy.cfg.Upstream == nil {
		return nil, nil
	}
	u, err := s.proxy.cfg.Upstream(q.Scheme, q.Name, q.Port)
	if err != nil {
		return nil, errors.New("the setting of the operator's proxy is no URL") // which may hold a password
	}
	if u == nil {
		return nil, nil
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the operator's proxy has the scheme %q: only http and https are known", u.Scheme)
	}
	return u, nil
}

// dialUpstream makes a tunnel through the operator's proxy. Its own address is the
// operator's choice and not checked.
func (s *Session) dialUpstream(ctx context.Context, u *url.URL, q policy.Request) (Conn, error) {
	conn, err := connectProxy(ctx, u, s.proxy.cfg.Roots)
	if err != nil {
		return nil, errors.New("the operator's proxy can't be reached") // its address is nothing for a job
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	rest, err := askTunnel(conn, u, q)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if len(rest) == 0 {
		return conn, nil
	}
	return &prefixed{conn, rest}, nil
}

func connectProxy(ctx context.Context, u *url.URL, roots *x509.CertPool) (Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn) //nolint:errcheck,forcetypeassert // the network is tcp
	if u.Scheme == "http" {
		return tcp, nil
	}
	t := tls.Client(tcp, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, RootCAs: roots})
	if err := t.HandshakeContext(ctx); err != nil {
		tcp.Close()
		return nil, err
	}
	return t, nil
}

// askTunnel sends CONNECT and returns what came behind the answer.
func askTunnel(conn Conn, u *url.URL, q policy.Request) (rest []byte, err error) {
	to := fmt.Sprintf("%s:%d", q.Name, q.Port)
	var b bytes.Buffer
	fmt.Fprintf(&b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", to, to)
	if u.User != nil {
		password, _ := u.User.Password()
		token := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		fmt.Fprintf(&b, "Proxy-Authorization: Basic %s\r\n", token)
	}
	b.WriteString("\r\n")
	if _, err := conn.Write(b.Bytes()); err != nil {
		return nil, errors.New("the operator's proxy hung up")
	}
	in := &input{r: conn}
	h, err := in.head()
	if err != nil {
		return nil, errors.New("the operator's proxy gave no proper answer")
	}
	parts := strings.SplitN(h.line, " ", 3)
	switch {
	case len(parts) < 2 || !strings.HasPrefix(parts[0], "HTTP/1."):
		return nil, errors.New("the operator's proxy gave no proper answer")
	case parts[1] == "407":
		return nil, errors.New("the operator's proxy wants other credentials (407): put them into its URL")
	case parts[1] != "200":
		return nil, fmt.Errorf("the operator's proxy answered %.3q", parts[1])
	}
	return in.rest, nil
}

// prefixed is a connection of which some bytes were read already.
type prefixed struct {
	Conn
	rest []byte
}

// Read implements io.Reader.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
