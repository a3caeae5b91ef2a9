package proxy

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
)

// client is one connection of a job's.
type client struct {
	s *Session
	// conn is what is spoken over, and raw what it is on top of: closed alone, it shows
	// the client that something is missing.
	conn, raw Conn
	in        input
	watch     *watch
	start     time.Time
	// target is what it asked for, zero until that is known.
	target policy.Request
	// reply says how a refusal is told.
	reply replier
	// refused holds why, a policy.Reason; nothing for a connection that was let through.
	refused        atomic.Value
	connected      bool
	sent, received atomic.Int64
}

func newClient(s *Session, conn Conn) *client {
	c := &client{s: s, conn: conn, raw: conn, in: input{r: conn}, start: time.Now(), reply: replyHTTP{}}
	c.watch = newWatch(s, conn)
	return c
}

// serve finds out what the client speaks.
func (c *client) serve() {
	first, err := c.in.first()
	switch {
	case err != nil: // it left without a word
	case first == socksVersion:
		c.reply = replySOCKS{}
		c.serveSOCKS()
	default:
		c.serveHTTP()
	}
}

func (c *client) serveHTTP() {
	h, err := c.in.head()
	if err != nil {
		c.refuseFor(err)
		return
	}
	r, err := parseRequest(h)
	if err != nil {
		c.refuseFor(err)
		return
	}
	c.target = r.target
	rule, why := c.s.decide(r.target)
	switch {
	case why != "":
		c.refuse(why, nil)
	case r.target.Scheme == policy.HTTP:
		c.forward(r)
	default:
		c.tunnel(rule)
	}
}

// tunnel connects, checks what the client then says in the clear, and moves bytes.
func (c *client) tunnel(rule *policy.Rule) {
	up, ok := c.dial()
	if !ok {
		return
	}
	defer up.Close()
	if c.s.grant.Secrets.Bound(c.target) {
		c.intercept(up)
		return
	}
	if err := c.reply.connected(c.conn); err != nil {
		return
	}
	c.reply = replyNothing{}
	if rule.Scheme == policy.HTTPS {
		c.reply = replyTLS{}
		if err := c.checkHello(); err != nil {
			c.refuseFor(err)
			return
		}
	}
	c.relay(up)
}

// dial connects to the target, or tells the client why not.
func (c *client) dial() (Conn, bool) {
	up, err := c.s.dial(c.s.ctx, c.target)
	switch {
	case err == nil && c.watch.add(up):
		c.connected = true
		c.watch.relax()
		return up, true
	case err == nil:
		up.Close()
	case onlyForbidden(err):
		c.refuse(ReasonForbidden, err)
	default:
		c.s.log.Info("egress failed", "host", c.target.Name, "port", c.target.Port, "err", err)
		_ = c.reply.failed(c.conn, c.target) // the client may have left
		linger(c.conn)
	}
	return nil, false
}

// finish notes what became of the connection.
func (c *client) finish() {
	c.watch.stop()
	if c.connected {
		c.s.tally.carried(c.sent.Load(), c.received.Load())
	}
	refused, _ := c.refused.Load().(policy.Reason)
	if c.target.Name == "" && refused == "" {
		return
	}
	c.s.log.Info("egress",
		slog.String("host", string(c.target.Name)), slog.Int("port", int(c.target.Port)), slog.String("scheme", string(c.target.Scheme)),
		slog.String("method", c.target.Method), slog.Bool("connected", c.connected), slog.String("refused", string(refused)),
		slog.Int64("sent_bytes", c.sent.Load()), slog.Int64("received_bytes", c.received.Load()),
		slog.Duration("took", time.Since(c.start)))
}

// reasons are those of errors.
var reasons = []struct {
	err    error
	reason policy.Reason
}{
	{policy.ErrAddress, policy.ReasonAddress},
	{policy.ErrName, policy.ReasonName},
	{errHost, ReasonHostField},
	{errNotTLS, ReasonNoTLS},
	{errHelloForm, ReasonNoTLS},
	{errNoSNI, ReasonNoSNI},
	{errSNI, ReasonSNI},
	{errECH, ReasonECH},
	{errCommand, ReasonCommand},
	{secret.ErrMisplaced, ReasonPlaceholder},
	{secret.ErrUnknown, ReasonUnknown},
	{errUpgrade, ReasonUpgrade},
	{errEncoded, ReasonEncoded},
}

// refuseFor refuses for the reason of an error; one without is a client that left.
func (c *client) refuseFor(err error) {
	for _, known := range reasons {
		if errors.Is(err, known.err) {
			c.refuse(known.reason, err)
			return
		}
	}
	var malformed *badMessage
	if errors.As(err, &malformed) {
		c.refuse(ReasonRequest, err)
	}
}

// count counts a refusal, once for a connection, and returns how many of its kind there
// were.
func (c *client) count(reason policy.Reason) int64 {
	if !c.refused.CompareAndSwap(nil, reason) {
		return 0
	}
	return c.s.tally.refused(job.Refusal{Host: string(c.target.Name), Port: c.target.Port, Reason: string(reason)})
}

// maxAnswers is how often a client is told the same. npm's agent takes any answer to
// CONNECT but 200 for a reason to try again at once, for ever; a closed connection
// makes it give up.
const maxAnswers = 50

// refuse counts a refusal and tells the client, as far as its protocol can.
func (c *client) refuse(reason policy.Reason, err error) {
	if c.count(reason) > maxAnswers && c.target.Scheme == policy.HTTPS {
		return
	}
	_ = c.reply.refused(c.conn, c.target, reason, err) // the client may have left
	linger(c.conn)
}
