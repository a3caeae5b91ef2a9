package proxy

import (
	"errors"
	"io"

	"github.com/quavon/quavon/runner/egress/policy"
)

// Numbers of RFC 1928.
const (
	socksVersion     = 5
	socksNoAuth      = 0
	socksNoMethod    = 0xff
	socksConnect     = 1
	socksDomain      = 3
	socksOK          = 0
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksNoCommand   = 7
)

// errCommand is anything but a connection out.
var errCommand = errors.New("only CONNECT is served")

// serveSOCKS serves a client that leaves the resolving to the proxy.
func (c *client) serveSOCKS() {
	err := c.readSOCKS()
	if err != nil {
		c.refuseFor(err)
		return
	}
	rule, why := c.s.decide(c.target)
	if why != "" {
		c.refuse(why, nil)
		return
	}
	c.tunnel(rule)
}

// readSOCKS reads the greeting and the request.
func (c *client) readSOCKS() error {
	head, err := c.in.take(2)
	if err != nil {
		return err
	}
	methods, err := c.in.take(int(head[1]))
	if err != nil {
		return err
	}
	if !contains(methods, socksNoAuth) {
		_, err := c.conn.Write([]byte{socksVersion, socksNoMethod})
		return errors.Join(bad("no method without a password is offered"), err)
	}
	if _, err := c.conn.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		return err
	}
	if head, err = c.in.take(5); err != nil {
		return err
	}
	switch {
	case head[0] != socksVersion || head[2] != 0:
		return bad("no SOCKS5 request")
	case head[1] != socksConnect:
		return errCommand
	case head[3] != socksDomain:
		return policy.ErrAddress
	}
	rest, err := c.in.take(int(head[4]) + 2)
	if err != nil {
		return err
	}
	end := len(rest) - 2
	c.target = policy.Request{Scheme: policy.HTTPS, Port: uint16(rest[end])<<8 | uint16(rest[end+1])}
	name, err := policy.Canonical(string(rest[:end]))
	c.target.Name = name
	return err
}

func contains(list []byte, b byte) bool {
	for _, c := range list {
		if c == b {
			return true
		}
	}
	return false
}

// take returns the next n bytes, at most 512.
func (in *input) take(n int) ([]byte, error) {
	for len(in.rest) < n {
		if err := in.more(); err != nil {
			return nil, err
		}
	}
	b := append([]byte(nil), in.rest[:n]...)
	in.rest = in.rest[n:]
	return b, nil
}

func socksReply(w io.Writer, code byte) error {
	_, err := w.Write([]byte{socksVersion, code, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}
