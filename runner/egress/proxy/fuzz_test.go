package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
)

// FuzzHead compares the strict parser with net/http: what it takes, net/http reads the
// same way, and what it sends on is the same message again.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"GET http://ok.example/a?b HTTP/1.1\r\nHost: ok.example\r\nX: y\r\n\r\n",
		"POST http://ok.example:81/ HTTP/1.1\r\nHost: ok.example:81\r\nContent-Length: 3\r\nConnection: x\r\nX: 1\r\n\r\nabc",
		"POST http://ok.example HTTP/1.1\r\nHost: OK.example.\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"CONNECT ok.example:443 HTTP/1.1\r\nHost: ok.example:443\r\n\r\n", "CONNECT ok.example:443 HTTP/1.0\r\n\r\n",
		"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET http://ok.example/ HTTP/1.1\nHost: ok.example\n\n", "GET http://ok.example/ HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := (&input{r: bytes.NewReader(b)}).head()
		if err != nil {
			return
		}
		r, err := parseRequest(h)
		if err != nil {
			return
		}
		if n, err := policy.Canonical(string(r.target.Name)); err != nil || n != r.target.Name {
			t.Fatalf("%q isn't canonical: %v", r.target.Name, err)
		}
		end := bytes.Index(b, []byte("\r\n\r\n")) + 4
		if r.target.Scheme != policy.HTTP {
			return
		}
		out := r.onward()
		sent, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
		if err != nil {
			if len(r.method) < 20 && strings.Trim(r.path, "%") == r.path { // it is stricter about percent signs
				t.Logf("net/http doesn't read %q: %v", out, err)
			}
			return
		}
		if sent.RequestURI != r.path || !strings.HasPrefix(sent.Host, string(r.target.Name)) || sent.Method != r.method {
			t.Fatalf("%q became %q", b[:end], out)
		}
		given, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:end])))
		if err != nil {
			return
		}
		if given.ContentLength != sent.ContentLength || len(given.TransferEncoding) != len(sent.TransferEncoding) {
			t.Fatalf("the body of %q is %d long, of %q %d", b[:end], given.ContentLength, out, sent.ContentLength)
		}
		again, err := parseHead(out)
		if err != nil {
			t.Fatalf("what was sent on is refused: %q: %v", out, err)
		}
		if again.chunked() != h.chunked() || again.length() != h.length() {
			t.Fatalf("the framing changed: %q", out)
		}
	})
}

// FuzzChunked: what is taken, net/http reads as the same body, and nothing behind it
// is sent on.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{"3\r\nabc\r\n0\r\n\r\n", "0\r\n\r\nGET /", "3;x\r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "fffffffff\r\n", "0\r\nX: y\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		if copyChunked(&out, bufio.NewReader(bytes.NewReader(b))) != nil {
			return
		}
		head := "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		want, err1 := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), bytes.NewReader(b))))
		rest := bytes.NewReader(out.Bytes())
		r := bufio.NewReader(io.MultiReader(strings.NewReader(head), rest))
		got, err2 := http.ReadRequest(r)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		wantBody, err1 := io.ReadAll(want.Body)
		gotBody, err2 := io.ReadAll(got.Body)
		if err1 != nil || err2 != nil || !bytes.Equal(wantBody, gotBody) {
			t.Fatalf("%q became %q (%v, %v)", b, out.Bytes(), err1, err2)
		}
		if n := r.Buffered() + rest.Len(); n > 0 {
			t.Fatalf("%d bytes follow the body in %q", n, out.Bytes())
		}
	})
}

// recorded is a client's first flight.
func recorded(cfg *tls.Config) []byte {
	here, there := net.Pipe()
	defer there.Close()
	go func() { _ = tls.Client(here, cfg).HandshakeContext(context.Background()) }()
	b := make([]byte, 16<<10)
	n, _ := there.Read(b)
	return b[:n]
}

var errSeen = errors.New("seen")

// serverSees is the name that a TLS server reads from the bytes.
func serverSees(b []byte) (name string, ok bool) {
	here, there := net.Pipe()
	_ = there.SetDeadline(time.Now().Add(5 * time.Second))
	go func() { _, _ = io.Copy(io.Discard, here) }() // the server's alert
	go func() {
		_, _ = here.Write(b)
		here.Close()
	}()
	defer there.Close()
	err := tls.Server(there, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, errSeen
	}}).HandshakeContext(context.Background())
	return name, ok && errors.Is(err, errSeen)
}

// FuzzHello: a name that is read here is the one that Go's server reads.
func FuzzHello(f *testing.F) {
	f.Add(recorded(&tls.Config{ServerName: "ok.example"}))
	f.Add(recorded(&tls.Config{InsecureSkipVerify: true}))
	f.Add(recorded(&tls.Config{ServerName: "ok.example", MaxVersion: tls.VersionTLS12}))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		if name, ok := serverSees(b); ok && name != h.name {
			t.Fatalf("read %q here, %q there", h.name, name)
		}
	})
}
