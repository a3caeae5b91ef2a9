package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
)

// The gRPC methods that are served to BuildKit.
const (
	methodSecret = "/moby.buildkit.secrets.v1.Secrets/GetSecret"
	methodPull   = "/moby.upload.v1.Upload/Pull"
	methodHealth = "/grpc.health.v1.Health/Check"
)

// gRPC status codes.
const (
	grpcOK              = "0"
	grpcInvalidArgument = "3"
	grpcNotFound        = "5"
	grpcUnimplemented   = "12"
	grpcInternal        = "13"
)

const (
	// contextHost is a host that BuildKit reads from this session.
	contextHost = "http://buildkit-session/"
	// chunk of the context that is sent in one message, in bytes.
	chunk = 256 << 10
)

// maxRequest bounds what BuildKit may ask in one request.
const maxRequest = 64 << 10

// session is a connection on which BuildKit calls back: the engine is the client
// of gRPC on it, and this side the server.
type session struct {
	id      string
	secrets map[string][]byte
	context io.Reader
	// failed is what went wrong with the context.
	failed atomic.Pointer[error]
	conn   net.Conn
	server *http.Server
	done   chan struct{}
}

func (e *Engine) openSession(ctx context.Context, b *Build) (*session, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	s := &session{id: hex.EncodeToString(id[:]), secrets: b.Secrets, context: b.Context, done: make(chan struct{})}
	conn, err := e.api.DialHijack(ctx, "/session", "h2c", map[string][]string{
		"X-Docker-Expose-Session-Uuid":        {s.id},
		"X-Docker-Expose-Session-Name":        {"quavon"},
		"X-Docker-Expose-Session-Grpc-Method": {methodSecret, methodPull, methodHealth},
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

// contextURL is what BuildKit reads the context from.
func (s *session) contextURL() string { return contextHost + s.id }

// ServeHTTP answers one gRPC call: messages, and the status in a trailer.
func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	var status string
	if r.URL.Path == methodPull {
		status = s.pull(w, r)
	} else {
		var answer []byte
		if answer, status = s.call(r); status == grpcOK {
			_ = send(w, answer) // BuildKit notices by itself
		}
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", status)
}

// send writes a message: five bytes of header and a protocol buffer.
func send(w io.Writer, message []byte) error {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	_, err := w.Write(append(frame, message...))
	return err
}

// pull sends the context, in messages whose first field is data.
func (s *session) pull(w io.Writer, r *http.Request) (status string) {
	if r.Header.Get("Urlpath") != "/"+s.id {
		return grpcNotFound
	}
	buf := make([]byte, chunk)
	for {
		n, err := io.ReadFull(s.context, buf)
		if n > 0 {
			data := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), buf[:n])
			if err := send(w, data); err != nil {
				return grpcInternal
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return grpcOK
		case err != nil:
			s.failed.CompareAndSwap(nil, &err)
			return grpcInternal
		}
	}
}

// explain prefers what went wrong on this side.
func (s *session) explain(err error) error {
	if own := s.failed.Load(); err != nil && own != nil {
		return *own
	}
	return err
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
