package proxy

import (
	"io"
	"strings"
	"testing"
)

// TestEarlyAnswer: a host's answer waits for the body, which may have a placeholder yet.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, end, want string }{
		{"a body", strings.Repeat("x", 40), "HTTP/1.1 200 OK"},
		{"a placeholder in it", "@TOKEN@", "HTTP/1.1 403 Refused by quavon: secret_misplaced"},
	} {
		answered := make(chan struct{})
		v := newVault(t, func(o *visit) {
			o.until("\r\n\r\n")
			o.say(fine)
			close(answered)
			o.all()
		})
		g := v.dial()
		g.send(lines("POST /v1/x HTTP/1.1", toBound, bearer, "Transfer-Encoding: chunked") + "2\r\nab\r\n28\r\n")
		<-answered
		g.send(c.end + "\r\n0\r\n\r\n")
		answer, _ := io.ReadAll(g)
		g.raw.Close()
		<-g.served
		o := <-v.done
		if !strings.HasPrefix(string(answer), c.want) || strings.Contains(o.seen, "quavon_secret") {
			t.Errorf("%s: answer %q, the host saw %q", c.name, answer, o.seen)
		}
	}
}

// TestTrailer: a host sees no trailer, and no end of a body that has one.
func TestTrailer(t *testing.T) {
	t.Parallel()
	v := newVault(t, (*visit).all)
	answer, _ := v.ask(lines("POST /v1/x HTTP/1.1", toBound, bearer, "Trailer: X", "Transfer-Encoding: chunked") + "1\r\na\r\n0\r\nX: @TOKEN@\r\n\r\n")
	if o := <-v.done; strings.Contains(o.seen, "quavon_secret") || strings.HasSuffix(o.seen, "0\r\n\r\n") || strings.Contains(o.seen, "Trailer") || !strings.HasPrefix(answer, "HTTP/1.1 400 Refused by quavon: bad_request") {
		t.Errorf("answer %q, the host saw %q", answer, o.seen)
	}
	if got := strings.Join(v.refusals(), " "); got != "bad_request" {
		t.Errorf("counted are %s", got)
	}
}

// TestContinue: a body that waits for the host's word comes afterwards, and is looked
// through all the same.
func TestContinue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"a body", strings.Repeat("x", 40), "HTTP/1.1 200 OK"},
		{"a placeholder", "@TOKEN@", "HTTP/1.1 403 Refused by quavon: secret_misplaced"},
	} {
		v := newVault(t, func(o *visit) {
			if o.until("\r\n\r\n") {
				o.say("HTTP/1.1 100 Continue\r\n\r\n")
			}
			if o.until(strings.Repeat("x", 40)) {
				o.say(fine)
				o.all()
			}
		})
		g := v.dial()
		g.send(lines("POST /v1/x HTTP/1.1", toBound, bearer, "Expect: 100-continue", "Content-Length: 40"))
		in := &input{r: g}
		if h, err := in.head(); err != nil || h.line != "HTTP/1.1 100 Continue" {
			t.Fatalf("%s: %v, %v", c.name, h, err)
		}
		g.send(c.body)
		answer, _ := io.ReadAll(in)
		g.raw.Close()
		<-g.served
		if o := <-v.done; !strings.HasPrefix(string(answer), c.want) || strings.Contains(o.seen, "quavon_secret") {
			t.Errorf("%s: answer %q, the host saw %q", c.name, answer, o.seen)
		}
	}
}

// TestClientLeaves: a client that leaves in the middle takes the host's connection with it,
// at whatever time.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	const post = "POST /v1/x HTTP/1.1"
	for _, c := range []struct {
		name, request string
		say           []string
	}{
		{"before its request ends", "GET /v1/x HT", nil},
		{"in its body", lines(post, toBound, bearer, "Content-Length: 100000") + "x", nil},
		{"in a short body", lines(post, toBound, bearer, "Content-Length: 10") + "x", nil},
		{"in a chunk", lines(post, toBound, bearer, "Transfer-Encoding: chunked") + "5\r\nx", nil},
		{"while the host thinks", lines("GET /v1/x HTTP/1.1", toBound, bearer), nil},
		{"while the host thinks about a body", lines(post, toBound, bearer, "Content-Length: 1") + "x", nil},
		{"in the response", lines("GET /v1/x HTTP/1.1", toBound, bearer), []string{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok"}},
		{"between events", lines("GET /v1/x HTTP/1.1", toBound, bearer), []string{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"}},
	} {
		for how, leave := range map[string]func(*guest){
			"with a word":    func(g *guest) { g.Close() },
			"without a word": func(g *guest) { g.raw.Close() },
		} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				t.Parallel()
				ready := make(chan struct{})
				v := newVault(t, func(o *visit) {
					o.until("\r\n\r\n")
					o.say(c.say...)
					close(ready)
					o.all() // ends with the client
				})
				g := v.dial()
				g.send(c.request)
				if !strings.HasPrefix(c.name, "before") && !strings.HasPrefix(c.name, "in a short") {
					<-ready
				}
				leave(g)
				<-g.served
				<-v.done
			})
		}
	}
}
