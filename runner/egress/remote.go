package egress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Remote is a door whose proxy is the egress service.
type Remote struct {
	// Addr is the service's HOST:PORT.
	Addr   string
	Tokens token.Store
	Log    *slog.Logger
}

var _ runner.Door = Remote{}

const (
	// answerTime bounds each answer of the service.
	answerTime = 10 * time.Second
	renewEvery = token.Life / 4
	// maxAnswer bounds what the service tells in the end.
	maxAnswer = 1 << 20
)

// Check implements runner.Door.
func (r Remote) Check(allow []string) error {
	_, err := jobPolicy(allow)
	return err
}

// Open implements runner.Door: it mints the step's token.
func (r Remote) Open(ctx context.Context, o runner.Opening) (runner.Passage, error) {
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	w := &way{Remote: r, token: token.Mint(), secret: len(o.Secrets) > 0}
	sealed, err := seal(w.token, o.Secrets)
	if err != nil {
		return nil, err
	}
	g := token.Grant{Job: o.Job, Step: o.Step, Allow: o.Allow, Secrets: sealed, Moved: o.Moved}
	if err := r.Tokens.Put(ctx, w.token, g); err != nil {
		return nil, err
	}
	if err := w.open(ctx); err != nil {
		w.revoke(ctx)
		return nil, fault.Wrap(err, "the egress service at "+r.Addr, "check that quavon egress runs there").
			WithCode(string(job.ReasonSandboxUnavailable))
	}
	w.ctx, w.end = context.WithCancelCause(context.WithoutCancel(ctx))
	go w.renew()
	return w, nil
}

// way is the way out of one step.
type way struct {
	Remote
	token   token.Token
	session *net.TCPConn
	answers *bufio.Reader
	ctx     context.Context
	end     context.CancelCauseFunc
	result  job.Egress
	// secret says that the step has secrets, pem whose word its tools take then.
	secret bool
	pem    []byte
}

// dial connects to the service and says what for.
func (w *way) dial(ctx context.Context, verb string) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: answerTime}
	c, err := d.DialContext(ctx, "tcp", w.Addr)
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn) //nolint:errcheck,forcetypeassert // the network is tcp
	if _, err := tcp.Write(opening(verb, w.token)); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return tcp, nil
}

func (w *way) open(ctx context.Context) (err error) {
	if w.session, err = w.dial(ctx, verbSession); err != nil {
		return err
	}
	w.answers = bufio.NewReader(io.LimitReader(w.session, maxAnswer))
	answer, err := w.answer()
	if err == nil {
		err = w.accepted(answer)
	}
	if err != nil {
		w.session.Close()
	}
	return err
}

// answer reads one line.
func (w *way) answer() (string, error) {
	if err := w.session.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return "", err
	}
	line, err := w.answers.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Carry implements runner.Passage.
func (w *way) Carry(conn *agent.Conn) {
	out, err := w.dial(w.ctx, verbConnect)
	if err != nil {
		w.Log.Warn("the egress service can't be reached", "err", err)
		return
	}
	stop := context.AfterFunc(w.ctx, func() { out.Close(); conn.Close() })
	defer stop()
	proxy.Join(conn, out)
}

// Close implements runner.Passage. The token ends first.
func (w *way) Close() job.Egress {
	if w.ctx.Err() != nil {
		return w.result
	}
	w.revoke(w.ctx)
	w.end(errors.New("the step has ended"))
	defer w.session.Close()
	_ = w.session.CloseWrite() // a lost service answers nothing
	answer, err := w.answer()
	if err == nil {
		err = json.Unmarshal([]byte(answer), &w.result)
	}
	if err != nil {
		w.Log.Warn("the egress service doesn't say what a step has reached", "err", err)
	}
	return w.result
}

// revoke deletes the token; what can't be deleted expires.
func (w *way) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), answerTime, errors.New("no answer of Valkey"))
	defer cancel()
	if err := w.Tokens.Delete(ctx, w.token); err != nil {
		w.Log.Warn("an egress token isn't deleted but expires", "err", err)
	}
}

// renew keeps the token alive while the step runs.
func (w *way) renew() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.Tokens.Renew(w.ctx, w.token); err != nil && w.ctx.Err() == nil {
			w.Log.Warn("an egress token isn't renewed", "err", err)
		}
	}
}
