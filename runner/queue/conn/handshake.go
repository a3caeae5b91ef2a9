package conn

import (
	"context"
	"crypto/tls"
	"net"
)

// Handshake makes an encrypted connection to the first address, as Open does, and
// shows what was agreed on. The server's certificate has been checked by then.
func Handshake(ctx context.Context, s Settings, show func(tls.ConnectionState)) error {
	cfg, err := s.tls()
	if err != nil {
		return err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: cfg}
	c, err := d.DialContext(ctx, "tcp", s.Addresses[0])
	if err != nil {
		return Explain(err, "connect to "+s.String())
	}
	defer c.Close()
	if t, ok := c.(*tls.Conn); ok {
		show(t.ConnectionState())
	}
	return nil
}
