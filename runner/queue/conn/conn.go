package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// Timeouts of a connection.
const (
	dialTimeout = 5 * time.Second
	// replyTimeout closes a connection on which nothing comes back, such as one
	// to a frozen server. Commands are then repeated on a new one.
	replyTimeout = 5 * time.Second
	keepAlive    = 10 * time.Second
	// bufferSize is of each direction of each connection. The client's default of
	// 512 KiB suits many thousand commands at once; ours are large or few.
	bufferSize = 64 << 10
)

// Open connects. It fails when Valkey can't be reached or refuses us.
func Open(s Settings) (valkey.Client, error) {
	opt := valkey.ClientOption{
		InitAddress: s.Addresses, Username: s.Username, Password: s.Password, SelectDB: s.DB,
		Dialer:           net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive},
		ConnWriteTimeout: replyTimeout,
		// Proxies and servers of the past don't know these, and we don't need them.
		DisableCache: true, ClientSetInfo: valkey.DisableClientSetInfo,
		// What may be repeated is known to Do alone.
		DisableRetry:       true,
		ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize,
		RingScaleEachConn: 9, PipelineMultiplex: 1,
		BlockingPoolCleanup: time.Minute,
	}
	if s.TLS {
		t, err := s.tls()
		if err != nil {
			return nil, err
		}
		opt.TLSConfig = t
	}
	if s.socket() {
		opt.ForceSingleClient = true
		opt.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	c, err := valkey.NewClient(opt)
	if err != nil {
		return nil, Explain(err, "connect to "+s.String())
	}
	return c, nil
}

func (s Settings) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CAFile != "" {
		pem, err := bounded.ReadFile(s.CAFile, maxPEM)
		if err != nil {
			return nil, fault.Wrap(err, "read Valkey's CA certificates", "check the path")
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fmt.Sprintf("%s holds no certificate", s.CAFile), "write PEM certificates into it")
		}
	}
	if s.CertFile != "" || s.KeyFile != "" {
		pair, err := keyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fault.Wrap(err, "read our certificate for Valkey", "name a PEM certificate and its key")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// maxPEM bounds a file of certificates or a key, in bytes.
const maxPEM = 4 << 20

func keyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err1 := bounded.ReadFile(certFile, maxPEM)
	key, err2 := bounded.ReadFile(keyFile, maxPEM)
	if err := cmp.Or(err1, err2); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// Explain turns a client's error into one for an operator.
func Explain(err error, what string) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return fault.Wrap(err, what, hint(err))
}
