package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/secret"
)

// errInBody says where a placeholder was.
var errInBody = fmt.Errorf("%w: in the body", secret.ErrMisplaced)

// forward sends one plain request on, over a connection that nobody else uses, and
// brings the response back. Both ends close afterwards.
func (c *client) forward(r *request) {
	if err := c.fill(r); err != nil {
		c.refuseFor(err)
		return
	}
	up, ok := c.dial()
	if !ok {
		return
	}
	defer up.Close()
	c.exchange(up, r)
}

// exchange sends a request to a host and brings the response back.
func (c *client) exchange(up Conn, r *request) {
	if _, err := c.meter(up, &c.sent).Write(r.onward()); err != nil {
		return
	}
	sent, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.send(up, r, sent)
	}()
	defer func() { <-ended }()
	if err := c.respond(up, r, sent); err != nil && !errors.Is(err, errTold) {
		c.raw.Close()
	}
	up.Close()
	// The client may still be sending what the server didn't want.
	linger(c.conn)
	c.raw.Close()
}

// send moves a request's body, closes sent, and hangs up on the host once the client has
// left.
func (c *client) send(up Conn, r *request, sent chan<- struct{}) {
	err := c.sendBody(up, r)
	if err != nil {
		c.refuseBody(up, err)
	}
	close(sent)
	if err == nil && r.upgrade() == "" && c.left() {
		up.Close()
	}
}

// left waits for a client that has said everything to leave. Only inside TLS is that
// another thing than the end of what it says.
func (c *client) left() bool {
	if c.conn == c.raw {
		return false
	}
	if _, err := io.CopyN(io.Discard, c.conn, maxAhead); !errors.Is(err, io.EOF) {
		return err != nil
	}
	_, err := io.CopyN(io.Discard, c.raw, maxAhead)
	return err != nil
}

// sendBody moves a request's body, looking for placeholders in a job that has some.
func (c *client) sendBody(up Conn, r *request) error {
	if !r.scan {
		return copyBody(c.meter(up, &c.sent), r.head, &c.in)
	}
	return copyFiltered(c.meter(up, &c.sent), r.head, &c.in, false, func(w io.Writer) filter { return &scanned{w: w} })
}

// refuseBody ends a request whose body can't be told from what follows it, or has a
// placeholder; respond tells the client. Any other failure only ends the sending: the
// server may have answered already.
func (c *client) refuseBody(up Conn, err error) {
	var malformed *badMessage
	switch {
	case errors.Is(err, secret.ErrMisplaced):
		c.count(ReasonPlaceholder)
	case errors.As(err, &malformed):
		c.count(ReasonRequest)
	default:
		_ = up.CloseWrite() // it may have left
		return
	}
	up.Close()
}

// upgrade is the protocol that a message without a body changes to, "" for none.
func (h *head) upgrade() string {
	if h.chunked() || h.length() > 0 {
		return ""
	}
	if u := h.all("upgrade"); len(u) == 1 && slices.Contains(h.tokens("connection"), "upgrade") {
		return u[0]
	}
	return ""
}

// onward is the request's head as the server gets it.
func (r *request) onward() []byte {
	var b bytes.Buffer
	host := string(r.target.Name)
	if usual := r.target.Scheme == policy.HTTP && r.target.Port == 80 || r.target.Scheme == policy.HTTPS && r.target.Port == 443; !usual {
		host += ":" + strconv.Itoa(int(r.target.Port))
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.path, host)
	r.endToEnd(&b)
	r.framing(&b)
	writeConnection(&b, r.upgrade())
	return b.Bytes()
}

func writeConnection(b *bytes.Buffer, upgrade string) {
	if upgrade != "" {
		fmt.Fprintf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgrade)
		return
	}
	b.WriteString("Connection: close\r\n\r\n")
}

// respond brings the response back: interim ones, then the final one with its body,
// or what follows a change of protocol. sent is closed once the request has gone.
func (c *client) respond(up Conn, r *request, sent <-chan struct{}) error {
	in := &input{r: up}
	down := c.meter(c.conn, &c.received)
	for {
		h, err := in.head()
		if err != nil {
			return c.badResponse(err)
		}
		status, err := parseStatus(h.line)
		if err != nil {
			return c.badResponse(err)
		}
		if r.scrub != nil {
			if err := scrubHead(h, r.scrub); err != nil {
				c.refuseFor(err)
				return errors.Join(errTold, err)
			}
		}
		upgrade := ""
		if status == 101 {
			if upgrade, err = r.switched(h); err != nil {
				return c.badResponse(err)
			}
		}
		if r.scan && status >= 200 && !c.settled(sent) {
			return c.badResponse(errInBody)
		}
		if _, err := down.Write(responseHead(h, status, upgrade)); err != nil {
			return err
		}
		switch {
		case status == 101 && r.scrub != nil:
			return c.webSocket(up, in, r.scrub)
		case status == 101:
			return c.upgraded(up, in)
		case status >= 200:
			return c.responseBody(up, in, h, status, r)
		}
	}
}

// switched is the protocol that a host changes to, as it was asked.
func (r *request) switched(h *head) (string, error) {
	upgrade := h.upgrade()
	if upgrade == "" || r.upgrade() == "" {
		return "", bad("a change of protocol that nobody asked for")
	}
	if r.scrub != nil {
		return upgrade, r.checkSwitch(h)
	}
	return upgrade, nil
}

// bodyTime is how long a response waits for the body of a request that may have a
// placeholder: a server may answer before it has seen the end, and some never read it.
const bodyTime = 10 * time.Second

// settled waits for a request's body, and says whether it was fine.
func (c *client) settled(sent <-chan struct{}) bool {
	select {
	case <-sent:
	case <-time.After(bodyTime):
	case <-c.s.ctx.Done():
	}
	return c.refused.Load() == nil
}

// responseBody moves the body, at most what its length says.
func (c *client) responseBody(up Conn, in *input, h *head, status int, r *request) error {
	if r.method == "HEAD" || status == 204 || status == 304 {
		return nil
	}
	down := c.meter(c.conn, &c.received)
	if r.scrub != nil {
		return copyFiltered(down, h, in, true, func(w io.Writer) filter { return &scrubbed{w: w, s: secret.Scrubber{Patterns: r.scrub}} })
	}
	if n := h.length(); n >= 0 {
		_, err := io.CopyN(down, in, n)
		return err
	}
	if err := c.flush(c.conn, in, &c.received); err != nil {
		return err
	}
	return move(down, up)
}

// upgraded is a tunnel from now on.
func (c *client) upgraded(up Conn, in *input) error {
	if err := c.flush(c.conn, in, &c.received); err != nil {
		return err
	}
	c.relay(up)
	return nil
}

// errTold is a failure of which the client has had an answer.
var errTold = errors.New("the client knows")

// badResponse tells the client that the server can't be understood, or that the body was
// refused meanwhile.
func (c *client) badResponse(err error) error {
	switch why, _ := c.refused.Load().(policy.Reason); why {
	case ReasonPlaceholder:
		_ = c.reply.refused(c.conn, c.target, why, errInBody) // the client may have left
	case ReasonRequest:
		_ = c.reply.refused(c.conn, c.target, why, bad("the body has no proper form")) // the same
	default:
		_ = c.reply.failed(c.conn, c.target) // the same
	}
	return errors.Join(errTold, err)
}

func parseStatus(line string) (int, error) {
	parts := strings.SplitN(line, " ", 3)
	if len(parts) < 2 || parts[0] != "HTTP/1.1" && parts[0] != "HTTP/1.0" || len(parts[1]) != 3 {
		return 0, bad("the status line isn't one")
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 100 {
		return 0, bad("the status isn't a number")
	}
	return n, nil
}

// responseHead is a response's head as the client gets it.
func responseHead(h *head, status int, upgrade string) []byte {
	var b bytes.Buffer
	_, phrase, _ := strings.Cut(h.line, " ")
	b.WriteString("HTTP/1.1 " + phrase + "\r\n")
	h.endToEnd(&b)
	switch {
	case status >= 200:
		h.framing(&b)
		writeConnection(&b, "")
	case status == 101:
		writeConnection(&b, upgrade)
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}
