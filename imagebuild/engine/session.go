package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// The two gRPC methods that are served to BuildKit.
const (
	methodSecret = "/moby.buildkit.secrets.v1.Secrets/GetSecret"
	methodHealth = "/grpc.health.v1.Health/Check"
)

// gRPC status codes.
const (
	grpcOK              = "0"
	grpcInvalidArgument = "3"
	grpcNotFound        = "5"
	grpcUnimplemented   = "12"
)

// maxRequest bounds what BuildKit may ask in one request.
const maxRequest = 64 << 10

// session is a connection on which BuildKit calls back: the engine is the client
// of gRPC on it, and this side the server.
type session struct {
	id      string
	secrets map[string][]byte
	conn    net.Conn
	server  *http.Server
	done    chan struct{}
}

func (e *Engine) openSession(ctx context.Context, secrets map[string][]byte) (*session, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	s := &session{id: hex.EncodeToString(id[:]), secrets: secrets, done: make(chan struct{})}
	conn, err := e.api.DialHijack(ctx, "/session", "h2c", map[string][]string{
		"X-Docker-Expose-Session-Uuid":        {s.id},
		"X-Docker-Expose-Session-Name":        {"quavon"},
		"X-Docker-Expose-Session-Grpc-Method": {methodSecret, methodHealth},
	})
	if err != nil {
		return nil, err
	}
	s.conn = conn
	s.server = &http.Server{Handler: s, Protocols: new(http.Protocols), BaseContext: func(net.Listener) context.Context { return ctx }}
	s.server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		defer close(s.done)
		_ = s.server.Serve(&oneConn{conn: conn, closed: make(chan struct{})}) // ends with ErrServerClosed
	}()
	return s, nil
}

func (s *session) close() {
	_ = s.server.Close() // it is over; nobody can be told
	_ = s.conn.Close()
	<-s.done
}

// ServeHTTP answers one gRPC call: a message of five bytes of header and a
// protocol buffer, and the status in a trailer.
func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	answer, status := s.call(r)
	if status == grpcOK {
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer)))
		_, _ = w.Write(append(frame, answer...)) // BuildKit notices by itself
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", status)
}

func (s *session) call(r *http.Request) (answer []byte, status string) {
	switch r.URL.Path {
	case methodHealth:
		return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), grpcOK // serving
	case methodSecret:
		id, err := secretID(r.Body)
		if err != nil {
			return nil, grpcInvalidArgument
		}
		content, ok := s.secrets[id]
		if !ok {
			return nil, grpcNotFound
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), content), grpcOK
	}
	return nil, grpcUnimplemented
}

// secretID reads the first field of a GetSecretRequest.
func secretID(body io.Reader) (id string, err error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxRequest))
	if err != nil {
		return "", err
	}
	if len(raw) < 5 || raw[0] != 0 || uint64(binary.BigEndian.Uint32(raw[1:])) != uint64(len(raw)-5) {
		return "", errWire
	}
	err = eachField(raw[5:], func(num protowire.Number, b []byte, _ uint64) error {
		if num == 1 {
			id = string(b)
		}
		return nil
	})
	return id, err
}

// oneConn is a listener for a connection that exists.
type oneConn struct {
	conn   net.Conn
	once   sync.Once
	stop   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { conn = l.conn })
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error { l.stop.Do(func() { close(l.closed) }); return nil }

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
