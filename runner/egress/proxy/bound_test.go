package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/egresstest"
)

// TestRequests: what a host gets of the requests that are allowed, and that it gets not a
// byte of those that aren't.
func TestRequests(t *testing.T) {
	t.Parallel()
	get := func(more ...string) string { return lines(append([]string{"GET /v1/x HTTP/1.1", toBound}, more...)...) }
	post := func(body string, more ...string) string {
		return lines(append([]string{"POST /v1/x HTTP/1.1", toBound, bearer}, more...)...) + body
	}
	const full, sized = "Bearer " + value, "Content-Length: 42"
	for _, c := range []struct {
		name, request string
		reason        string // of the refusal
		want          string // of what the host sees, otherwise
	}{
		{"a bearer", get(bearer), "", "\r\nAuthorization: " + full + "\r\n"},
		{"the whole field", get("authorization: @TOKEN@"), "", "\r\nauthorization: " + value + "\r\n"},
		{"no secret", lines("GET /v2 HTTP/1.1", toBound), "", "GET /v2 HTTP/1.1\r\nHost: api.example\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"},
		{"a body", post("a=b", "Content-Length: 3"), "", "\r\n\r\na=b"},
		{"chunks", post("1\r\na\r\n2\r\n=b\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "", "\r\n0\r\n\r\n"},
		{"almost a placeholder", post("quavon_secret_ABCDEFGHIJKL", "Content-Length: 26"), "", "\r\n\r\nquavon_secret_ABCDEFGHIJKL"},
		{"compression that is asked for", get(bearer, "Accept-Encoding: gzip"), "", "\r\nAccept-Encoding: identity\r\n"},

		{"another field", get("X-Token: @TOKEN@"), "secret_misplaced", ""},
		{"another field too", get(bearer, "X-Token: @TOKEN@"), "secret_misplaced", ""},
		{"a field that goes nowhere", get("TE: @TOKEN@"), "secret_misplaced", ""},
		{"a field's name", get("X-@TOKEN@: x"), "secret_misplaced", ""},
		{"the path", lines("GET /v1/@TOKEN@ HTTP/1.1", toBound), "secret_misplaced", ""},
		{"the query", lines("GET /v1/x?t=@TOKEN@ HTTP/1.1", toBound), "secret_misplaced", ""},
		{"another path", lines("GET /v2 HTTP/1.1", toBound, bearer), "secret_misplaced", ""},
		{"a path that climbs", lines("GET /v1/%2e%2e/v2 HTTP/1.1", toBound, bearer), "secret_misplaced", ""},
		{"the body", post("a=@TOKEN@", sized), "secret_misplaced", ""},
		{"twice", get(bearer, bearer), "secret_misplaced", ""},
		{"a placeholder of nobody", get("Authorization: Bearer quavon_secret_" + strings.Repeat("A", 26)), "secret_unknown", ""},
		{"another host", lines("GET /v1/x HTTP/1.1", "Host: evil.example", bearer), "host_mismatch", ""},
		{"another port", lines("GET /v1/x HTTP/1.1", toBound+":8443", bearer), "host_mismatch", ""},
		{"another protocol", get(bearer, "Connection: Upgrade", "Upgrade: h2c"), "secret_upgrade", ""},

		{"a length and chunks", post("0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"), "bad_request", ""},
		{"two lengths", post("a", "Content-Length: 1", "Content-Length: 1"), "bad_request", ""},
		{"a bare LF", get("X: a\nAuthorization: Bearer @TOKEN@"), "bad_request", ""},
		{"a bare LF that ends the head", "GET /v1/x HTTP/1.1\nHost: api.example\n\n", "bad_request", ""},
		{"a folded field", get("Authorization: Bearer", " @TOKEN@"), "bad_request", ""},
		{"HTTP/1.0 with chunks", lines("POST /v1/x HTTP/1.0", toBound, bearer, "Transfer-Encoding: chunked") + "0\r\n\r\n", "bad_request", ""},
		{"a head without end", "GET /v1/x HTTP/1.1\r\nX: " + strings.Repeat("x", maxHead), "bad_request", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, func(o *visit) {
				if !o.until("\r\n\r\n") || !o.until(c.want) {
					return
				}
				o.say(fine)
				o.all()
			})
			answer, err := v.ask(c.request)
			o := <-v.done
			if c.reason != "" {
				checkRefused(t, v, o, answer, c.reason)
				return
			}
			if err != nil || !strings.HasSuffix(answer, "ok") || !strings.Contains(o.seen, c.want) || strings.Contains(o.seen, "Bearer quavon") {
				t.Errorf("%v, answer %q, the host saw %q", err, answer, o.seen)
			}
			if has := strings.Contains(o.seen, value); has != strings.Contains(c.request, "@TOKEN@") {
				t.Errorf("the host saw %q", o.seen)
			}
		})
	}
}

// checkRefused wants a refusal to be told and counted, and the host to have seen nothing.
func checkRefused(t *testing.T, v *vault, o *visit, answer, reason string) {
	t.Helper()
	if !strings.Contains(answer, "Refused by quavon: "+reason) {
		t.Errorf("answer %q, want %s", answer, reason)
	}
	if got := strings.Join(v.refusals(), " "); got != reason {
		t.Errorf("counted are %s, want %s", got, reason)
	}
	if n := v.sent.Load(); n > 0 || o.seen != "" {
		t.Errorf("the host saw %d bytes, %q", n, o.seen)
	}
}

// TestPlainHTTP: a secret bound to https doesn't go to the same host in the clear.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	v := newVault(t, says(fine))
	answer := ask(t, v.session, v.with(lines("GET http://api.example/v1/x HTTP/1.1", toBound, bearer)))
	if n := v.sent.Load(); n > 0 || !strings.Contains(answer, "secret_misplaced") {
		t.Errorf("the host saw %d bytes, answer %q", n, answer)
	}
	if answer := ask(t, v.session, lines("GET http://api.example/v1/x HTTP/1.1", toBound)); !strings.HasSuffix(answer, "ok") {
		t.Errorf("without the secret: %q", answer)
	}
}

// TestOneRequest: a connection carries one request and one response, whatever either end
// thinks of keeping it.
func TestOneRequest(t *testing.T) {
	t.Parallel()
	v := newVault(t, func(o *visit) {
		o.until("\r\n\r\n")
		o.say("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"+fine, fine)
		o.all()
	})
	answer, err := v.ask(lines("GET /v1/x HTTP/1.1", toBound, bearer, "Connection: keep-alive") + lines("GET /v2 HTTP/1.1", toBound))
	o := <-v.done
	if strings.Count(o.seen, "GET ") != 1 || !strings.Contains(o.seen, "\r\nConnection: close\r\n") {
		t.Errorf("the host saw %q", o.seen)
	}
	if err != nil || answer != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" {
		t.Errorf("%v, answer %q", err, answer)
	}
}

// TestScrubbing: the value is kept out of a response wherever its host cuts it.
func TestScrubbing(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	stars := strings.Repeat("*", len(value))
	for cut := range len(value) + 1 {
		a, b := value[:cut], value[cut:]
		sized := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n<", len(value)+2)
		const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		for name, texts := range map[string][]string{
			"by length":     {sized + a, b + ">"},
			"to the end":    {"HTTP/1.1 200 OK\r\n\r\n<" + a, b + ">"},
			"in chunks":     {chunked, fmt.Sprintf("%x\r\n<%s\r\n", len(a)+1, a), fmt.Sprintf("%x\r\n%s>\r\n0\r\n\r\n", len(b)+1, b)},
			"in the head":   {"HTTP/1.1 200 OK\r\nX: <" + a, b + ">\r\nContent-Length: 0\r\n\r\n"},
			"in the status": {"HTTP/1.1 200 <" + a, b + ">\r\nContent-Length: 0\r\n\r\n"},
		} {
			v.serve = says(texts...)
			answer, err := v.ask(lines("GET /v1/x HTTP/1.1", toBound, bearer))
			<-v.done
			if name == "in chunks" {
				answer = egresstest.Unchunked(answer)
			}
			if err != nil || !strings.Contains(answer, "<"+stars+">") {
				t.Errorf("%s, cut at %d: %v, %q", name, cut, err, answer)
			}
		}
	}
}

// TestResponses: what a client gets of responses that end where their heads say, and that
// it can tell when one doesn't end.
func TestResponses(t *testing.T) {
	t.Parallel()
	const (
		get, head = "GET", "HEAD"
		more      = "more"
	)
	for _, c := range []struct {
		name, method string
		texts        []string
		want         string // the answer's beginning and
		end          string // its end
		cut          bool   // it doesn't end as it should
	}{
		{"HEAD", head, []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + more}, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n", "\r\n\r\n", false},
		{"HEAD in chunks", head, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n0\r\n\r\n"}, "HTTP/1.1 200 OK", "\r\n\r\n", false},
		{"204", get, []string{"HTTP/1.1 204 No\r\n\r\n" + more}, "HTTP/1.1 204 No\r\n", "\r\n\r\n", false},
		{"304", get, []string{"HTTP/1.1 304 Same\r\nContent-Length: 4\r\n\r\n" + more}, "HTTP/1.1 304 Same\r\n", "\r\n\r\n", false},
		{"behind the length", get, []string{fine + more}, "HTTP/1.1 200 OK", "\r\n\r\nok", false},
		{"behind the last chunk", get, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore"}, "HTTP/1.1 200 OK", "\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"interim ones", get, []string{"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 102 Wait\r\n\r\n" + fine}, "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 200", "ok", false},

		{"gzip", get, []string{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nmore"}, "HTTP/1.1 403 Refused by quavon: secret_encoded_response", "", false},
		{"gzip as a transfer", get, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\nmore\r\n0\r\n\r\n"}, "HTTP/1.1 502", "", false},
		{"a protocol nobody asked for", get, []string{"HTTP/1.1 101 Now\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nmore"}, "HTTP/1.1 502", "", false},
		{"a length and chunks", get, []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n0\r\n\r\n"}, "HTTP/1.1 502", "", false},
		{"two lengths", get, []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nmore"}, "HTTP/1.1 502", "", false},
		{"a bare LF", get, []string{"HTTP/1.1 200 OK\r\nX: y\nContent-Length: 4\r\n\r\nmore"}, "HTTP/1.1 502", "", false},
		{"a folded field", get, []string{"HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 4\r\n\r\nmore"}, "HTTP/1.1 502", "", false},
		{"no HTTP", get, []string{"more\r\n\r\n"}, "HTTP/1.1 502", "", false},
		{"nothing", get, nil, "HTTP/1.1 502", "", false},
		{"half a head", get, []string{"HTTP/1.1 200 OK\r\nX: more"}, "HTTP/1.1 502", "", false},
		{"a head without end", get, []string{"HTTP/1.1 200 OK\r\n", strings.Repeat("X: more\r\n", maxHead)}, "HTTP/1.1 502", "", false},
		{"a field without end", get, []string{"HTTP/1.1 200 OK\r\nX: ", strings.Repeat("more", maxHead)}, "HTTP/1.1 502", "", false},

		{"an end before the length", get, []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok"}, "HTTP/1.1 200 OK", "\r\n\r\nok", true},
		{"an end in a chunk", get, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nok"}, "HTTP/1.1 200 OK", "ok\r\n", true},
		{"an end between chunks", get, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"}, "HTTP/1.1 200 OK", "ok\r\n", true},
		{"a trailer", get, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: more\r\n\r\n"}, "HTTP/1.1 200 OK", "ok\r\n", true},
		{"an extension of a chunk", get, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;more\r\nok\r\n0\r\n\r\n"}, "HTTP/1.1 200 OK", "\r\n\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, says(c.texts...))
			answer, err := v.ask(lines(c.method+" /v1/x HTTP/1.1", toBound, bearer))
			<-v.done
			if !strings.HasPrefix(answer, c.want) || !strings.HasSuffix(answer, c.end) || strings.Contains(answer, more) {
				t.Errorf("answer %q", answer)
			}
			if (err != nil) != c.cut {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// TestAbruptEnd: a response that lasts until the connection ends is only whole when the
// host says that it ends.
func TestAbruptEnd(t *testing.T) {
	t.Parallel()
	v := newVault(t, func(o *visit) {
		o.until("\r\n\r\n")
		o.say("HTTP/1.1 200 OK\r\n\r\nok")
		o.raw.Close()
	})
	answer, err := v.ask(lines("GET /v1/x HTTP/1.1", toBound))
	<-v.done
	if err == nil || !strings.HasPrefix(answer, "HTTP/1.1 200 OK") {
		t.Errorf("%v, answer %q", err, answer)
	}
}
