package weak

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
)

// openDoor opens the way out in every step.
func openDoor(_ Lab, s *job.Spec) {
	s.Allow = []string{"*"}
	for i := range s.Steps {
		s.Steps[i].Network = job.NetworkRegistries
	}
}

// Door is a proxy that asks no questions: whatever a job wants to reach is dialled.
type Door struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Check implements runner.Door.
func (Door) Check([]string) error { return nil }

// Open implements runner.Door.
func (d Door) Open(ctx context.Context, _ runner.Opening) (runner.Passage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	dial := d.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTime}).DialContext
	}
	return &passage{ctx: ctx, cancel: cancel, dial: dial}, nil
}

type passage struct {
	ctx    context.Context //nolint:containedctx // a passage is as long as its step
	cancel context.CancelCauseFunc
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	count  atomic.Int64
}

var errClosed = errors.New("the door is closed")

// Close implements runner.Passage.
func (p *passage) Close() job.Egress {
	p.cancel(errClosed)
	return job.Egress{Connections: p.count.Load()}
}

// dialTime is how long an address has to answer.
const dialTime = 2 * time.Second

// Carry implements runner.Passage. It knows CONNECT and plain requests.
func (p *passage) Carry(c *agent.Conn) {
	defer c.Close()
	p.count.Add(1)
	in := bufio.NewReader(c)
	head, err := readHead(in)
	if err != nil {
		return
	}
	method, target, _ := strings.Cut(head, " ")
	target, _, _ = strings.Cut(target, " ")
	out, err := p.dial(p.ctx, "tcp", address(target))
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer out.Close()
	stop := context.AfterFunc(p.ctx, func() { out.Close(); c.Close() })
	defer stop()
	if method == "CONNECT" {
		_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	} else {
		_, err = io.WriteString(out, head)
	}
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(out, in) }()
	_, _ = io.Copy(c, out)
}

// readHead reads a request's head.
func readHead(r *bufio.Reader) (string, error) {
	var head strings.Builder
	for head.Len() < 16<<10 {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		head.WriteString(line)
		if strings.TrimRight(line, "\r\n") == "" {
			return head.String(), nil
		}
	}
	return "", errors.New("the head is too long")
}

// address is where a request goes.
func address(target string) string {
	if rest, ok := strings.CutPrefix(target, "http://"); ok {
		target, _, _ = strings.Cut(rest, "/")
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return net.JoinHostPort(strings.Trim(target, "[]"), "80")
	}
	return target
}
