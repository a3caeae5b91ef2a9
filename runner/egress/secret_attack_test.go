package egress_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/job"
)

// say answers a request for /v1/say/FORM with the value in that form, as raw bytes.
func say(rw http.ResponseWriter, name string) {
	c, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(says[name].say(realValue)))
}

// theft is one row: what is sent, and how it must end.
type theft struct {
	name string
	attempt
	// reason is the refusal's; with none the request reaches the server, which must have
	// seen neither what hides is nor the placeholder.
	reason string
	hides  string
}

// told is a request inside the TLS to the bound host. The placeholder is @TOKEN@.
func told(lines ...string) attempt {
	a := connect("ok.example:443")
	a.TLS, a.Inside = "ok.example", []byte(strings.Join(lines, "\r\n")+"\r\n\r\n")
	return a
}

const (
	onHost = "Host: ok.example"
	bearer = "Authorization: Bearer @TOKEN@"
)

// asks is a GET of a path with the placeholder where it belongs, and more.
func asks(target string, more ...string) attempt {
	return told(append([]string{"GET " + target + " HTTP/1.1", onHost, bearer}, more...)...)
}

func posts(body string, more ...string) attempt {
	lines := append([]string{"POST /v1/x HTTP/1.1", onHost, bearer}, more...)
	if !slices.ContainsFunc(more, func(l string) bool { return strings.HasPrefix(l, "Transfer-Encoding") }) {
		n := len(strings.ReplaceAll(body, "@TOKEN@", strings.Repeat("x", 40)))
		lines = append(lines, fmt.Sprintf("Content-Length: %d", n))
	}
	a := told(lines...)
	a.Inside = append(a.Inside, body...)
	return a
}

// chunk is one of a body in chunks; the placeholder has 40 bytes.
func chunk(s string) string {
	return fmt.Sprintf("%x\r\n%s\r\n", len(strings.ReplaceAll(s, "@TOKEN@", strings.Repeat("x", 40))), s)
}

func thefts() []theft {
	var list []theft
	add := func(reason string, rows map[string]attempt) {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			list = append(list, theft{name: name, attempt: rows[name], reason: reason})
		}
	}
	const chunked = "Transfer-Encoding: chunked"
	long := strings.Repeat("x", 70000)
	add("secret_misplaced", map[string]attempt{
		"another field":               told("GET /v1/x HTTP/1.1", onHost, "X-Other: @TOKEN@"),
		"a cookie":                    told("GET /v1/x HTTP/1.1", onHost, "Cookie: t=@TOKEN@"),
		"a field that looks alike":    told("GET /v1/x HTTP/1.1", onHost, "Authorization_: Bearer @TOKEN@"),
		"the name of a field":         told("GET /v1/x HTTP/1.1", onHost, "X-@TOKEN@: a"),
		"the method":                  told("@TOKEN@ /v1/x HTTP/1.1", onHost),
		"twice":                       asks("/v1/x", "authorization: Bearer @TOKEN@"),
		"twice in one field":          told("GET /v1/x HTTP/1.1", onHost, "Authorization: @TOKEN@ @TOKEN@"),
		"a part of a word":            told("GET /v1/x HTTP/1.1", onHost, "Authorization: Bearer x@TOKEN@"),
		"a quoted part":               told("GET /v1/x HTTP/1.1", onHost, `Authorization: Digest username="@TOKEN@"`),
		"another path":                asks("/v2"),
		"the host's root":             asks("/"),
		"a path that begins alike":    asks("/v1x"),
		"dots":                        asks("/v1/../v2"),
		"encoded dots":                asks("/v1/%2e%2E/v2"),
		"dots encoded twice":          asks("/v1/%252e%252e%252fv2"),
		"a backslash":                 asks(`/v1/..\v2`),
		"an encoded backslash":        asks("/v1/..%5cv2"),
		"parameters of a segment":     asks("/v1/..;/v2"),
		"overlong dots":               asks("/v1/%c0%ae%c0%ae/v2"),
		"a NUL in the path":           asks("/v1/%00/../v2"),
		"an escape of IIS":            asks("/v1/%u002e%u002e/v2"),
		"two slashes":                 asks("//v1/x"),
		"in the path":                 told("GET /v1/x/@TOKEN@ HTTP/1.1", onHost),
		"in the query":                told("GET /v1/x?t=@TOKEN@ HTTP/1.1", onHost),
		"the body":                    posts("a=@TOKEN@"),
		"a body that waits":           posts("@TOKEN@", "Expect: 100-continue"),
		"a multipart body":            posts("--B\r\nContent-Disposition: form-data; name=t\r\n\r\n@TOKEN@\r\n--B--\r\n", "Content-Type: multipart/form-data; boundary=B"),
		"a chunk":                     posts(chunk("a=@TOKEN@")+"0\r\n\r\n", chunked),
		"behind a long body":          posts(chunk(long+"@TOKEN@")+"0\r\n\r\n", chunked),
		"WebSocket to another path":   asks("/v2/ws", wsFields...),
		"WebSocket, another field":    told(append([]string{"GET /v1/ws/echo HTTP/1.1", onHost, "X-Other: @TOKEN@"}, wsFields...)...),
		"WebSocket in plain HTTP":     plain(append([]string{"GET http://ok.example/v1/ws/echo HTTP/1.1", onHost, bearer}, wsFields...)...),
		"plain HTTP":                  plain("GET http://ok.example/v1/x HTTP/1.1", onHost, bearer),
		"plain HTTP, the body":        {Send: []byte("POST http://ok.example/v1/x HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 40\r\n\r\n@TOKEN@")},
		"plain HTTP, a proxy's field": plain("GET http://ok.example/v1/x HTTP/1.1", onHost, "Proxy-Authorization: Bearer @TOKEN@"),
	})
	add("secret_unknown", map[string]attempt{
		"a placeholder that was guessed": told("GET /v1/x HTTP/1.1", onHost, "Authorization: Bearer quavon_secret_ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
	})
	add("secret_upgrade", map[string]attempt{
		"an old WebSocket":          asks("/v1/ws/echo", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", wsField),
		"a WebSocket without a key": asks("/v1/ws/echo", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
		"a WebSocket by POST":       told("POST /v1/ws/echo HTTP/1.1", onHost, bearer, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", wsField),
		"a WebSocket or HTTP/2":     asks("/v1/ws/echo", "Connection: Upgrade", "Upgrade: websocket, h2c", "Sec-WebSocket-Version: 13", wsField),
		"HTTP/2 in clear":           asks("/v1/x", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
	})
	add("host_mismatch", map[string]attempt{
		"a Host with a user": told("GET /v1/x HTTP/1.1", "Host: ok.example@evil.example", bearer),
		"fronting":           told("GET /v1/x HTTP/1.1", "Host: spliced.example", bearer),
	})
	add("bad_request", map[string]attempt{
		"CR LF in the target":        asks("/v1/x\r\nX: y"),
		"a bare CR in a field":       asks("/v1/x", "X: a\rX-Other: @TOKEN@"),
		"a bare LF in a field":       asks("/v1/x", "X: a\nX-Other: @TOKEN@"),
		"a NUL in a field":           asks("/v1/x", "X: a\x00"),
		"a folded field":             told("GET /v1/x HTTP/1.1", onHost, "Authorization: Bearer", " @TOKEN@"),
		"a space before the colon":   told("GET /v1/x HTTP/1.1", onHost, "Authorization : Bearer @TOKEN@"),
		"HTTP/2 that is known":       told("PRI * HTTP/2.0\r\n\r\nSM"),
		"HTTP/2 as a version":        told("GET /v1/x HTTP/2.0", onHost, bearer),
		"HTTP/0.9":                   told("GET /v1/x", bearer),
		"CONNECT inside":             told("CONNECT evil.example:443 HTTP/1.1", "Host: evil.example:443", bearer),
		"a whole URL inside":         told("GET https://evil.example/v1/x HTTP/1.1", onHost, bearer),
		"an asterisk":                told("OPTIONS * HTTP/1.1", onHost, bearer),
		"a fragment":                 asks("/v1/x#@evil.example/"),
		"two lengths":                asks("/v1/x", "Content-Length: 0", "Content-Length: 40"),
		"a length and chunks":        posts("0\r\n\r\n", "Content-Length: 5", chunked),
		"chunks of another kind":     asks("/v1/x", "Transfer-Encoding: xchunked"),
		"two Hosts":                  asks("/v1/x", "Host: evil.example"),
		"a trailer":                  posts(chunk("a")+"0\r\nX-Other: @TOKEN@\r\n\r\n", chunked),
		"an extension of a chunk":    posts("1;@TOKEN@\r\na\r\n0\r\n\r\n", chunked),
		"TLS in TLS":                 {Send: told().Send, TLS: "ok.example", Inside: clientHello("evil.example", nil)},
		"no Host":                    told("GET /v1/x HTTP/1.1", bearer),
		"a target that isn't ASCII":  asks("/v1/\u2024\u2024/v2"),
		"a long head":                asks("/v1/x", "X: "+long),
		"a line before the request":  told("\r\nGET /v1/x HTTP/1.1", onHost, bearer),
		"too many fields":            asks("/v1/x", slices.Repeat([]string{"X: y"}, 200)...),
		"HTTP/1.0 with chunks":       told("POST /v1/x HTTP/1.0", onHost, bearer, chunked),
		"a chunk size with a sign":   posts("+1\r\na\r\n0\r\n\r\n", chunked),
		"a chunk that is too short":  posts("5\r\na\r\n0\r\n\r\n", chunked),
		"no end of the chunk's line": posts(strings.Repeat("0", 100), chunked),
	})
	early := posts(chunk(long+"@TOKEN@")+"0\r\n\r\n", chunked)
	early.Inside = bytes.Replace(early.Inside, []byte("/v1/x"), []byte("/v1/early"), 1)
	add("secret_misplaced", map[string]attempt{"a body whose answer comes before it": early})
	only2 := asks("/v1/x")
	only2.Protos = []string{"h2"}
	for name, a := range map[string]theft{
		"a second request behind the first":      {attempt: asks("/v1/x\x20HTTP/1.1\r\nHost: ok.example\r\n\r\nGET /v2"), hides: "/v2"},
		"a field that sends the credential away": {attempt: asks("/v1/x", "Connection: authorization, accept-encoding"), hides: realValue},
		"another path by a field":                {attempt: asks("/v1/x", "X-Original-URL: /v2", "X-Rewrite-URL: /v2", "X-Forwarded-Prefix: /v2"), hides: "/v2"},
		"another host by a field":                {attempt: asks("/v1/x", "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example", "X-Host: evil.example"), hides: "evil"},
		"a byte for each request":                {attempt: asks("/v1/x", "Range: bytes=13-13", "If-Range: x", "Request-Range: bytes=1-1"), hides: "ange"},
		"a byte of what was kept":                {attempt: told("GET /v1/x HTTP/1.1", onHost, "range: bytes=13-13"), hides: "ange"},
		"another character set":                  {attempt: asks("/v1/x", "Accept-Charset: utf-16", "A-IM: gzip", "Want-Repr-Digest: sha-256=1"), hides: "utf-16"},
		"compression":                            {attempt: asks("/v1/x", "Accept-Encoding: gzip"), hides: "gzip"},
		"a client that speaks HTTP/2 alone":      {attempt: only2, hides: "/v1/x"},
	} {
		a.name = name
		list = append(list, a)
	}
	for _, name := range slices.Sorted(maps.Keys(says)) {
		a := asks("/v1/say/" + name)
		if name == "trace" {
			a.Inside = bytes.Replace(a.Inside, []byte("GET"), []byte("TRACE"), 1)
		}
		list = append(list, theft{name: "said: " + name, attempt: a, reason: says[name].reason})
	}
	return list
}

// syncWriter is a log that many write.
type syncWriter struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// TestSecretAttacks: the same table, whatever isolates.
func TestSecretAttacks(t *testing.T) {
	everywhere(t, secretUnderAttack)
}

// lair is where a thief is, with the servers around it.
type lair struct {
	*arena
	v *vault
}

func secretUnderAttack(t *testing.T, p place) {
	t.Helper()
	w := newWorld(t)
	v := newVault(t, w)
	spec := withSecret("", "")
	r, root, mounts := p(t)
	var logged syncWriter
	l := slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.Log, r.Door = l, egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules(t, spec.Allow...), Resolver: w, Dialer: w, Roots: v.roots, Log: l})}
	spec.ID, spec.Root, spec.Mounts = "theft-"+strings.ToLower(rand.Text()[:8]), root, mounts
	spec.Steps = []job.Step{{Argv: []string{"/attacker/attacker"}, Network: job.NetworkRegistries}}
	a, ended := enter(t, r, spec)
	a.w = w
	in := &lair{a, v}
	want := map[string]int64{}
	for _, row := range thefts() {
		want[row.reason]++
		t.Run(row.name, func(t *testing.T) { in.steal(t, row) })
	}
	for _, row := range framed() {
		want[row.reason]++
		t.Run("WebSocket: "+row.name, func(t *testing.T) { in.stealFrames(t, row) })
	}
	res := ended()
	delete(want, "")
	checkCounts(t, res, want)
	doc, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc)+logged.b.String(), realValue) {
		t.Error("the result or the log has the value")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if cut := strings.Join(v.cut, "\n"); strings.Contains(cut, "quavon_secret_") || cut == "" {
		t.Errorf("of requests that were cut the server saw %s", cut)
	}
}

// control shows that the same client uses the secret through the same door now.
func (in *lair) control(t *testing.T) {
	t.Helper()
	o := in.try(t, asks("/v1/x"))
	seen := in.v.take()
	if !strings.Contains(o.Answer, "you reached /v1/x with \"Bearer ****") || len(seen) != 1 || !strings.HasPrefix(seen[0], "GET /v1/x Bearer "+realValue+" ") {
		t.Errorf("the control fails: %+v, the server saw %v", o, seen)
	}
}

// steal tries one row between two controls.
func (in *lair) steal(t *testing.T, row theft) {
	t.Helper()
	in.control(t)
	o := in.try(t, row.attempt)
	seen := strings.Join(in.v.take(), "\n")
	_, plain, hit := in.w.take()
	if strings.Contains(o.Answer, realValue) || strings.Contains(o.Err, realValue) || len(plain) > 0 || len(hit) > 0 {
		t.Errorf("it got through: %+v; the plain server saw %v, the victim %v", o, plain, hit)
	}
	if strings.Contains(seen, "quavon_secret_") {
		t.Errorf("the server saw a placeholder: %s", seen)
	}
	name, said := strings.CutPrefix(row.name, "said: ")
	switch {
	case said:
		checkSaid(t, says[name], o.Answer, seen)
	case row.reason != "":
		if strings.Contains(o.Answer, "you reached") || strings.Contains(seen, "GET ") {
			t.Errorf("it got through: %+v, the server saw %s", o, seen)
		}
	case strings.Contains(seen, row.hides):
		t.Errorf("the server saw %s", seen)
	}
	in.control(t)
}

// checkSaid looks for the value as a reader of the form does, who finds it in what the
// server has said.
func checkSaid(t *testing.T, f form, got, seen string) {
	t.Helper()
	read := f.read
	if read == nil {
		read = func(s string) string { return s }
	}
	if !strings.Contains(read(f.say(realValue)), realValue) {
		t.Fatal("the row shows nothing: the value isn't in what the server says")
	}
	if !strings.Contains(seen, "/v1/say/") {
		t.Errorf("the server was not asked: %s", got)
	}
	found := strings.Contains(read(got), realValue)
	switch {
	case found != f.residual:
		t.Errorf("found: %v in %q", found, got)
	case f.lost && strings.Contains(got, "HTTP/1.1 2"):
		t.Errorf("it got through: %q", got)
	case f.reason != "" && !strings.Contains(got, f.reason):
		t.Errorf("no reason is told: %q", got)
	}
}
