package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// single is a listener of one connection. Accept ends with it.
type single struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
}

func (s *single) Accept() (conn net.Conn, err error) {
	s.once.Do(func() { conn = s.conn })
	if conn == nil {
		<-s.done
		err = io.EOF
	}
	return conn, err
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// echo is a host that others have written: it says who has come, and then all that it
// hears.
func echo(t *testing.T) func(*visit) {
	return func(o *visit) {
		l := &single{conn: o.Conn, done: make(chan struct{})}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(l.done)
			opts := &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, Subprotocols: []string{"v2"}}
			c, err := websocket.Accept(w, r, opts)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.CloseNow() }()
			c.SetReadLimit(-1)
			err = c.Write(r.Context(), websocket.MessageText, []byte("hello "+r.Header.Get("Authorization")))
			for err == nil {
				var kind websocket.MessageType
				var text []byte
				if kind, text, err = c.Read(r.Context()); err == nil {
					err = c.Write(r.Context(), kind, text)
				}
			}
		})} //nolint:gosec // a test's
		_ = server.Serve(l)
	}
}

// TestInterop: a client and a host that others have written, both of which would like to
// compress, speak through the proxy.
func TestInterop(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	big := strings.Repeat("some text that can be compressed well; ", 10000)
	for _, end := range []string{"a Close", "a placeholder"} {
		v := newVault(t, echo(t))
		var g *guest
		through := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			g = v.dial()
			return g, nil
		}}
		c, answer, err := websocket.Dial(ctx, "wss://"+bound+"/v1/ws", &websocket.DialOptions{ //nolint:bodyclose // it has none
			HTTPClient: &http.Client{Transport: through}, CompressionMode: websocket.CompressionContextTakeover,
			HTTPHeader: http.Header{"Authorization": {v.with("Bearer @TOKEN@")}}, Subprotocols: []string{"v1", "v2"},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(-1)
		if c.Subprotocol() != "v2" || answer.Header.Get("Sec-Websocket-Extensions") != "" {
			t.Errorf("%v", answer.Header)
		}
		_, text, err := c.Read(ctx)
		if want := "hello Bearer " + strings.Repeat("*", len(value)); err != nil || string(text) != want {
			t.Errorf("%q, %v", text, err)
		}
		for _, say := range []string{"", "x", big} {
			err := c.Write(ctx, websocket.MessageBinary, []byte(say))
			kind, text, err2 := c.Read(ctx)
			if errors.Join(err, err2) != nil || kind != websocket.MessageBinary || string(text) != say {
				t.Fatalf("%.100q, %v, %v", text, err, err2)
			}
		}
		if end == "a Close" {
			if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
				t.Error(err)
			}
		} else {
			err := c.Write(ctx, websocket.MessageText, []byte(v.with("t=@TOKEN@")))
			_, _, err2 := c.Read(ctx)
			if err != nil || websocket.CloseStatus(err2) != websocket.StatusPolicyViolation {
				t.Errorf("%v, %v", err, err2)
			}
			_ = c.CloseNow()
		}
		<-g.served
		<-v.done
	}
}
