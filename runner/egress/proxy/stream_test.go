package proxy

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/egress/egresstest"
)

// words is what one end says, and what the other gets of it before anybody says more.
type words struct {
	from      end
	say, want string
}

type end int

const (
	byClient end = iota
	byHost
	// byBoth is what the client says and the proxy answers.
	byBoth
)

// TestNothingWaits: each word arrives before the next is said, whatever carries it: no
// direction is kept until it is complete, or until there is more.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	const (
		to      = " http://ok.example/x HTTP/1.1\r\nHost: ok.example\r\n"
		there   = " /x HTTP/1.1\r\nHost: ok.example\r\n"
		closing = "Connection: close\r\n\r\n"
		upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		chunks  = "Transfer-Encoding: chunked\r\n"
	)
	asked := words{byClient, "GET" + to + "\r\n", "GET" + there + closing}
	hello := string(recorded(&tls.Config{ServerName: "ok.example"}))
	for name, talk := range map[string][]words{
		"events": {
			asked,
			{byHost, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + closing},
			{byHost, "data: 1\n\n", ""},
			{byHost, "data: 2\n\n", ""},
		},
		"a response in chunks": {
			asked,
			{byHost, "HTTP/1.1 200 OK\r\n" + chunks + "\r\n", "HTTP/1.1 200 OK\r\n" + chunks + closing},
			{byHost, "3\r\nabc\r\n", ""},
			{byHost, "0\r\n\r\n", ""},
		},
		"a response by length": {
			asked,
			{byHost, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n" + closing},
			{byHost, "abc", ""},
			{byHost, "def", ""},
		},
		"an interim response": {
			{byClient, "POST" + to + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", "POST" + there + "Expect: 100-continue\r\nContent-Length: 3\r\n" + closing},
			{byHost, "HTTP/1.1 100 Continue\r\n\r\n", ""},
			{byClient, "abc", ""},
		},
		"an upload in chunks": {
			{byClient, "POST" + to + chunks + "\r\n", "POST" + there + chunks + closing},
			{byClient, "3\r\nabc\r\n", ""},
			{byClient, "1\r\nd\r\n", ""},
			{byHost, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + closing},
		},
		"an upload by length": {
			{byClient, "POST" + to + "Content-Length: 1000000\r\n\r\n", "POST" + there + "Content-Length: 1000000\r\n" + closing},
			{byClient, "abc", ""},
			{byClient, strings.Repeat("d", 1000), ""},
		},
		"WebSocket": {
			{byClient, "GET" + to + upgrade, "GET" + there + upgrade},
			{byHost, "HTTP/1.1 101 Switching\r\n" + upgrade, ""},
			{byHost, "\x81\x02hi", ""},
			{byClient, "\x81\x82abcd..", ""},
			{byHost, "\x89\x00", ""},
		},
		"a tunnel": {
			{byBoth, "CONNECT raw.example:9418 HTTP/1.1\r\n\r\n", opened},
			{byClient, "a", ""},
			{byHost, "b", ""},
			{byClient, "c", ""},
		},
		// What is in TLS is none of the proxy's business: not a byte is another.
		"TLS": {
			{byBoth, connectTo("ok.example:443"), opened},
			{byClient, hello, ""},
			{byHost, "\x16\x03\x03 whatever", ""},
			{byClient, "more", ""},
		},
		"SOCKS": {
			{byBoth, "\x05\x01\x00", "\x05\x00"},
			{byBoth, "\x05\x01\x00\x03\x0aok.example\x01\xbb", "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"},
			{byClient, hello, ""},
			{byHost, "b", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := []string{"GET+POST=http://ok.example", "ok.example", rawRule}
			s := newStreet(t, Limits{}, list, list)
			here, served := s.enter()
			var far *net.TCPConn
			for i, w := range talk {
				if w.want == "" {
					w.want = w.say
				}
				if w.from == byBoth {
					pass(t, name, here, here, w.say, w.want)
					continue
				}
				if far == nil { // it is dialled once it is known who
					_, _ = here.Write([]byte(w.say))
					w.say, far = "", <-s.hosts
					_ = far.SetDeadline(time.Now().Add(patience))
				}
				from, to := here, far
				if w.from == byHost {
					from, to = far, here
				}
				pass(t, name, from, to, w.say, w.want)
				if i == len(talk)-1 {
					here.Close()
					far.Close()
				}
			}
			<-served
		})
	}
}

// TestOnlyTCPIsUnread: the policy for a hello without a name, an encrypted one, or none
// at all is the rule's: https refuses them, and tcp on both lists lets them through.
func TestOnlyTCPIsUnread(t *testing.T) {
	t.Parallel()
	const https, tcp = "ok.example", "tcp://ok.example:443"
	const unrecognized = "\x15\x03\x01\x00\x02\x02\x70" // an alert of TLS, "unrecognized name"
	ech := recorded(&tls.Config{ServerName: "ok.example", MinVersion: tls.VersionTLS13})
	for name, c := range map[string]struct{ reason, say string }{
		"no name":      {"sni_missing", string(recorded(&tls.Config{InsecureSkipVerify: true}))},
		"another name": {"sni_mismatch", string(recorded(&tls.Config{ServerName: "evil.example"}))},
		"encrypted":    {"ech", string(egresstest.WithExtension(ech, extensionECH))},
		"no TLS":       {"not_tls", "SSH-2.0-x\r\n"},
	} {
		for _, lists := range [][2]string{{https, https}, {https, tcp}, {tcp, https}, {tcp, tcp}} {
			t.Run(name+" by "+lists[0]+" and "+lists[1], func(t *testing.T) {
				t.Parallel()
				s := newStreet(t, Limits{}, lists[:1], lists[1:])
				here, served := s.enter()
				pass(t, name, here, here, connectTo("ok.example:443"), opened)
				far := <-s.hosts
				_ = far.SetDeadline(time.Now().Add(patience))
				if lists == [2]string{tcp, tcp} {
					pass(t, name, here, far, c.say, c.say)
					here.Close()
				} else {
					_, _ = here.Write([]byte(c.say))
					told := ended(t, name, here)
					here.Close()
					if seen := ended(t, name, far); seen != "" || told != unrecognized || s.refusals(c.reason) != 1 {
						t.Errorf("the host saw %q, the client %q, refused are %+v", seen, told, s.session.Tally())
					}
				}
				far.Close()
				<-served
			})
		}
	}
}
