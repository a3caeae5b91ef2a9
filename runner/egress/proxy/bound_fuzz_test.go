package proxy

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/websocket"
	"github.com/quavon/quavon/runner/secret"
)

// memory is a connection: what is read from it was there before, what is written stays.
type memory struct {
	io.Reader
	bytes.Buffer
}

func (m *memory) Read(p []byte) (int, error) { return m.Reader.Read(p) }
func (*memory) Close() error                 { return nil }
func (*memory) CloseWrite() error            { return nil }

// said is a client that has said some bytes inside its TLS, without the TLS.
func (v *vault) said(text string) *client {
	conn := &memory{Reader: strings.NewReader(text)}
	c := newClient(v.session, conn)
	c.target = policy.Request{Scheme: policy.HTTPS, Name: bound, Port: 443}
	return c
}

// hasPlaceholder says whether some placeholder is in a text.
func hasPlaceholder(text []byte) bool {
	var f secret.Finder
	for _, c := range text {
		if f.Next(c) {
			return true
		}
	}
	return false
}

// rewritten is what the host gets of what a client said.
func (v *vault) rewritten(text string) []byte {
	c := v.said(text)
	defer c.watch.stop()
	h, err := c.in.head()
	if err != nil {
		return nil
	}
	r, err := parseOrigin(h, c.target)
	if err != nil || c.fill(r) != nil {
		return nil
	}
	up := &memory{}
	up.Write(r.onward())
	_ = c.sendBody(up, r)
	return up.Bytes()
}

// FuzzRequest: the host gets the value in its field of an allowed request alone, and never a
// placeholder, whatever a client says.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		lines("GET /v1/x HTTP/1.1", toBound, bearer),
		lines("GET /v1/x HTTP/1.1", toBound, "authorization: @TOKEN@", "Connection: authorization, x"),
		lines("GET /v2 HTTP/1.1", toBound, bearer),
		lines("POST /v1/x?a HTTP/1.1", toBound, bearer, "Content-Length: 9") + "a=@TOKEN@",
		lines("POST /v1/x HTTP/1.1", toBound, bearer, "Transfer-Encoding: chunked") + "2\r\nab\r\n28\r\n@TOKEN@\r\n0\r\n\r\n",
		lines("POST /v1/x HTTP/1.1", toBound, "Expect: 100-continue", "Transfer-Encoding: chunked") + "1\r\na\r\n0\r\nX: @TOKEN@\r\n\r\n",
		lines("GET /v1/x HTTP/1.1", toBound, "Authorization: Basic @BASIC@"),
		lines("GET /v1/x HTTP/1.1", toBound, "X: Basic @BASIC@"),
		handshake("Sec-WebSocket-Extensions: @TOKEN@"), handshake() + "\x81\x01",
		"GET /v1/x HTTP/1.1\nHost: api.example\n\n", lines("GET /v1/x HTTP/1.1", toBound, "Authorization: Bearer", " @TOKEN@"),
	} {
		f.Add(s)
	}
	v := newVault(f, nil)
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + v.set[0].Placeholder))
	f.Fuzz(func(t *testing.T, text string) {
		out := v.rewritten(strings.ReplaceAll(v.with(text), "@BASIC@", basic))
		if len(out) == 0 || strings.Contains(text, value) {
			return
		}
		front, body, _ := bytes.Cut(out, []byte("\r\n\r\n"))
		h, err := parseHead(append(bytes.Clone(front), "\r\n\r\n"...))
		if err != nil {
			t.Fatalf("what was sent on is refused: %q: %v", out, err)
		}
		if h.chunked() {
			plain, _ := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
			body = append(bytes.Clone(body), plain...)
		}
		if hasPlaceholder(front) || hasPlaceholder(body) || strings.Contains(string(front), basic) {
			t.Fatalf("a placeholder was sent on: %q", out)
		}
		has := 0
		for _, f := range h.fields {
			user, password, _ := strings.Cut(decoded(f.value), ":")
			if f.key == "authorization" && (strings.HasSuffix(f.value, value) || user == value || password == value) {
				has++
			}
		}
		path := strings.Split(string(front), " ")[1]
		if has > 1 || has == 1 && !v.set[0].Holds(path) || has == 0 && bytes.Contains(out, []byte(value)) || bytes.Count(out, []byte(value)) > 1 {
			t.Fatalf("%q became %q", text, out)
		}
	})
}

// decoded is what Basic has in base64.
func decoded(field string) string {
	_, text, _ := strings.Cut(field, " ")
	b, _ := base64.StdEncoding.DecodeString(text)
	return string(b)
}

// cutUp makes frames of a message. Each cut says how long a frame is, and whether a control
// frame follows.
func cutUp(text string, cuts []byte, frame func(byte, string) string) string {
	var b strings.Builder
	opcode := byte(1)
	for _, c := range cuts {
		n := min(int(c>>1), len(text))
		b.WriteString(frame(opcode, text[:n]))
		if c&1 != 0 {
			b.WriteString(frame(0x89, "ping"))
		}
		text, opcode = text[n:], 0
	}
	return b.String() + frame(0x80|opcode, text) + frame(0x88, "")
}

func messages(t *testing.T, r *websocket.Reader) (text []byte) {
	t.Helper()
	for {
		h, err := r.Next()
		if err != nil {
			return text
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] ^= h.Key[i%4]
		}
		if !h.Control() {
			text = append(text, b...)
		}
	}
}

// FuzzFramesToHost: no placeholder gets through, however it is cut into frames; everything
// else does.
func FuzzFramesToHost(f *testing.F) {
	f.Add("a=@TOKEN@", []byte{1, 20, 21})
	f.Add("hello", []byte{0, 3})
	v := newVault(f, nil)
	f.Fuzz(func(t *testing.T, text string, cuts []byte) {
		text = v.with(text)
		c := v.said(cutUp(text, cuts, from))
		defer c.watch.stop()
		up := &memory{}
		err := (&webSocket{c: c, up: up}).forward()
		got := messages(t, websocket.FromClient(bufio.NewReader(&up.Buffer)))
		if want := hasPlaceholder([]byte(text)); hasPlaceholder(got) || (err != nil) != want || !want && string(got) != text {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}

// FuzzFramesToClient: what a client gets is the message without the value, as long as it
// was, however it was cut into frames; and frames that are none end it.
func FuzzFramesToClient(f *testing.F) {
	f.Add("it is "+value, []byte{1, 20, 21}, "")
	f.Add(value[:9], []byte{}, to(0x81, value[9:]))
	f.Add("x", []byte{0}, "\xc1\x01x")
	f.Add("", []byte{}, "\x810")
	v := newVault(f, nil)
	f.Fuzz(func(t *testing.T, text string, cuts []byte, raw string) {
		for _, in := range []string{cutUp(text, cuts, to), raw} {
			c := v.said("")
			w := &webSocket{c: c, up: &memory{}, values: secret.Scrubber{Patterns: v.session.patterns}, text: make([]byte, frameBuffer)}
			_ = w.back(&input{r: strings.NewReader(in)})
			c.watch.stop()
			out := c.conn.(*memory)
			if in == raw {
				_, err := told(websocket.FromServer(bufio.NewReader(&out.Buffer)))
				if w.mid == (err == io.EOF) { //nolint:errorlint // it is said to be that one
					t.Fatalf("%q, in a frame: %v, became what ends with %v", raw, w.mid, err)
				}
				continue
			}
			got := messages(t, websocket.FromServer(bufio.NewReader(&out.Buffer)))
			if want := v.session.patterns.Text(text); string(got) != want || strings.Contains(want, value) {
				t.Fatalf("%q became %q", text, got)
			}
		}
	})
}
