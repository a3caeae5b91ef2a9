package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/egress/intercept"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/secret"
)

// Reasons of refusals about secrets; stable.
const (
	ReasonPlaceholder policy.Reason = "secret_misplaced"
	ReasonUnknown     policy.Reason = "secret_unknown"
	ReasonUpgrade     policy.Reason = "secret_upgrade"
	ReasonEncoded     policy.Reason = "secret_encoded_response"
	ReasonUntrusted   policy.Reason = "secret_host_untrusted"
)

var (
	errUpgrade   = errors.New("a change to a protocol that can't be read, or no proper handshake of WebSocket")
	errEncoded   = errors.New("the response is compressed, though that was not asked for")
	errUntrusted = errors.New("the host's certificate can't be verified")
)

// intercept reads what is inside the tunnel to a host that a secret is bound to.
// Nothing was sent on yet.
func (c *client) intercept(up Conn) {
	if err := c.reply.connected(c.conn); err != nil {
		return
	}
	c.reply = replyTLS{}
	if err := c.checkHello(); err != nil {
		c.refuseFor(err)
		return
	}
	ahead := c.in.rest
	c.in.rest = nil
	inside, err := c.s.grant.Authority.Accept(c.s.ctx, &prefixed{c.conn, ahead}, string(c.target.Name))
	if err != nil {
		c.s.log.Info("egress failed", "host", c.target.Name, "port", c.target.Port, "err", err)
		return // the client has had an alert
	}
	defer inside.Close()
	c.conn, c.in, c.reply = inside, input{r: inside}, replyHTTP{}
	h, err := c.in.head()
	if err != nil {
		c.refuseFor(err)
		return
	}
	r, err := parseOrigin(h, c.target)
	if err == nil {
		err = c.fill(r)
	}
	if err != nil {
		c.refuseFor(err)
		return
	}
	c.target.Method = r.method
	real, err := c.handshake(up)
	if err != nil {
		c.refuse(ReasonUntrusted, err)
		return
	}
	defer real.Close()
	c.exchange(real, r)
}

// handshake speaks TLS with the real host.
func (c *client) handshake(up Conn) (Conn, error) {
	ctx, cancel := context.WithTimeoutCause(c.s.ctx, dialTime, errNowhere)
	defer cancel()
	real, err := intercept.Dial(ctx, up, string(c.target.Name), c.s.proxy.cfg.Roots)
	if err == nil {
		return real, nil
	}
	var cert *tls.CertificateVerificationError
	var name x509.HostnameError
	if errors.As(err, &cert) || errors.As(err, &name) {
		return nil, fmt.Errorf("%w: %w", errUntrusted, err)
	}
	return nil, fmt.Errorf("its TLS handshake failed: %w", err)
}

// parseOrigin reads a request that a client sends to what it takes for the host, as
// strictly as one to the proxy.
func parseOrigin(h *head, to policy.Request) (*request, error) {
	parts := strings.Split(h.line, " ")
	if len(parts) != 3 || !strings.HasPrefix(parts[1], "/") || parts[0] == "CONNECT" {
		return nil, bad("the request line isn't METHOD /PATH VERSION")
	}
	h.line = fmt.Sprintf("%s http://%s:%d%s %s", parts[0], to.Name, to.Port, parts[1], parts[2])
	r, err := parseMessage(h, 443)
	if err != nil {
		return nil, err
	}
	r.target.Scheme = policy.HTTPS
	return r, nil
}

// remove takes fields out.
func (h *head) remove(keys ...string) {
	h.fields = slices.DeleteFunc(h.fields, func(f field) bool { return slices.Contains(keys, f.key) })
}

// overrides are fields by which some servers take another path or host for the request's.
var overrides = []string{
	"x-original-url", "x-rewrite-url", "x-forwarded-prefix", "x-forwarded-path", "x-forwarded-uri", "x-envoy-original-path",
	"forwarded", "x-forwarded-host", "x-forwarded-server", "x-original-host", "x-host", "x-http-host-override",
}

// partial are fields that make a server send a value in parts or in another character
// set, or its digest: what comes back then couldn't be recognized. They are left out of
// all requests to the host, since it may have kept the value of an earlier one.
var partial = []string{
	"range", "if-range", "request-range", "accept-charset", "a-im", "want-digest", "want-content-digest", "want-repr-digest",
}

// fill puts values in the places of placeholders. The error is of one that may not be
// where it is.
func (c *client) fill(r *request) error {
	secrets := c.s.grant.Secrets
	if len(secrets) == 0 {
		return nil
	}
	if err := secrets.CheckTarget(r.path); err != nil {
		return err
	}
	if err := secrets.CheckName(r.method); err != nil {
		return err
	}
	filled := false
	for i, f := range r.fields {
		if err := secrets.CheckName(f.name); err != nil {
			return err
		}
		value, err := secrets.Resolve(r.target, r.path, f.key, f.value)
		if err != nil {
			return err
		}
		if value == f.value {
			continue
		}
		if len(r.all(f.key)) > 1 {
			return fmt.Errorf("%w: the field is there twice", secret.ErrMisplaced)
		}
		r.fields[i].value, filled = value, true
	}
	r.scan = true
	if err := c.lookAhead(r); err != nil {
		return err
	}
	if !secrets.Bound(r.target) {
		return nil
	}
	if len(r.all("upgrade")) > 0 {
		if err := r.checkUpgrade(); err != nil {
			return err
		}
	}
	r.scrub = c.s.patterns
	r.remove("accept-encoding")
	r.remove(partial...)
	r.fields = append(r.fields, field{"Accept-Encoding", "accept-encoding", "identity"})
	if filled {
		r.remove(overrides...)
	}
	return nil
}

// maxAhead is how much of a body is read before anything of the request is sent on, so
// that a server sees nothing of one that is refused.
const maxAhead = 64 << 10

// lookAhead reads a small body and looks for placeholders. A client that waits for
// "100 Continue" hasn't sent it.
func (c *client) lookAhead(r *request) error {
	n := r.length()
	if n <= 0 || n > maxAhead || len(r.all("expect")) > 0 {
		return nil
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(&c.in, body); err != nil {
		return err
	}
	c.in.rest = slices.Concat(body, c.in.rest)
	_, err := (&scanned{w: io.Discard}).Write(body)
	return err
}

// scanned stops a body at a placeholder. What may be the beginning of one waits for
// what follows.
type scanned struct {
	w    io.Writer
	find secret.Finder
	held []byte
}

// Write implements io.Writer.
func (s *scanned) Write(p []byte) (int, error) {
	for _, b := range p {
		if s.find.Next(b) {
			return 0, errInBody
		}
	}
	all := p
	if len(s.held) > 0 {
		all = append(s.held, p...)
	}
	pass := len(all) - s.find.Pending()
	if pass > 0 {
		if _, err := s.w.Write(all[:pass]); err != nil {
			return 0, err
		}
	}
	s.held = append([]byte(nil), all[pass:]...)
	return len(p), nil
}

// Close passes on what waits.
func (s *scanned) Close() error {
	_, err := s.w.Write(s.held)
	return err
}

// scrubbed keeps values out of what is written to it.
type scrubbed struct {
	w   io.Writer
	s   secret.Scrubber
	buf []byte
}

// Write implements io.Writer.
func (s *scrubbed) Write(p []byte) (int, error) {
	s.buf = s.s.Next(s.buf[:0], p)
	if len(s.buf) > 0 {
		if _, err := s.w.Write(s.buf); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close passes on what waits.
func (s *scrubbed) Close() error {
	_, err := s.w.Write(s.s.Flush(nil))
	return err
}

// scrubHead keeps values out of a response's head, and refuses a body that can't be
// read.
func scrubHead(h *head, p *secret.Patterns) error {
	for _, e := range h.tokens("content-encoding") {
		if e != "identity" {
			return errEncoded
		}
	}
	h.line = p.Text(h.line)
	for i, f := range h.fields {
		h.fields[i].name, h.fields[i].value = p.Text(f.name), p.Text(f.value)
	}
	h.remove("alt-svc") // it leads around here
	return nil
}
