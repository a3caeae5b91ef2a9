package proxy

import (
	"errors"
	"fmt"

	"github.com/quavon/quavon/runner/egress/policy"
)

var (
	errNoSNI = errors.New("the ClientHello names no server")
	errSNI   = errors.New("the ClientHello names another server")
	errECH   = errors.New("the ClientHello is encrypted (ECH)")
)

// checkHello reads the client's hello and compares its server name with the target.
// Nothing of it has been sent on yet.
func (c *client) checkHello() error {
	for {
		h, err := parseHello(c.in.rest)
		if err == nil {
			return c.compare(h)
		}
		if !errors.Is(err, errShort) {
			return err
		}
		if len(c.in.rest) > maxRecords {
			return errHelloForm
		}
		if err := c.in.more(); err != nil {
			return err
		}
	}
}

func (c *client) compare(h hello) error {
	if h.ech {
		return errECH
	}
	if h.name == "" {
		return errNoSNI
	}
	name, err := policy.Canonical(h.name)
	if err != nil || name != c.target.Name {
		return fmt.Errorf("%w than %s", errSNI, c.target.Name)
	}
	return nil
}
