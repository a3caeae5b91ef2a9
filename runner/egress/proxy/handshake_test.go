package proxy

import (
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/websocket"
)

// TestHandshake: what is no handshake that can be read isn't sent on, and what is no answer
// to it doesn't come back.
func TestHandshake(t *testing.T) {
	t.Parallel()
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(handshake()) }
	for name, request := range map[string]string{
		"POST":                  edit("GET", "POST"),
		"HTTP/1.0":              edit("HTTP/1.1", "HTTP/1.0"),
		"another protocol":      edit("Upgrade: websocket", "Upgrade: h2c"),
		"two protocols":         edit("Upgrade: websocket", "Upgrade: h2c, websocket"),
		"twice":                 handshake("Upgrade: websocket"),
		"no Connection":         edit("keep-alive, Upgrade", "keep-alive"),
		"another version":       edit("Version: 13", "Version: 8"),
		"no key":                edit("Sec-WebSocket-Key: "+wsKey, "X: y"),
		"two keys":              handshake("Sec-WebSocket-Key: " + wsKey),
		"a key that is short":   edit(wsKey, "c2hvcnQ="),
		"a body":                handshake("Content-Length: 1") + "x",
		"a body in chunks":      handshake("Transfer-Encoding: chunked") + "0\r\n\r\n",
		"a key in another form": edit(wsKey, strings.TrimRight(wsKey, "=")),
	} {
		v := newVault(t, speaks())
		answer, _ := v.ask(request)
		o := <-v.done
		t.Run(name, func(t *testing.T) { checkRefused(t, v, o, answer, "secret_upgrade") })
	}
	for name, request := range map[string]string{
		"another path":   edit("/v1/ws", "/v2/ws"),
		"another field":  edit("Authorization", "X-Token"),
		"the key":        edit(wsKey, "@TOKEN@"),
		"the protocol":   handshake("Sec-WebSocket-Protocol: x, @TOKEN@"),
		"the query":      edit("/v1/ws", "/v1/ws?t=@TOKEN@"),
		"in the upgrade": edit("Upgrade: websocket", "Upgrade: @TOKEN@"),
	} {
		v := newVault(t, speaks())
		answer, _ := v.ask(request)
		o := <-v.done
		t.Run(name, func(t *testing.T) { checkRefused(t, v, o, answer, "secret_misplaced") })
	}
	for name, answer := range map[string]string{
		"another protocol":             strings.Replace(switches(), "WebSocket", "h2c", 1),
		"no protocol":                  strings.Replace(switches(), "Upgrade: WebSocket", "X: y", 1),
		"no accept":                    strings.Replace(switches(), "Sec-WebSocket-Accept", "X", 1),
		"another accept":               strings.Replace(switches(), websocket.Accept(wsKey), websocket.Accept("x"), 1),
		"two accepts":                  switches("Sec-WebSocket-Accept: x"),
		"an extension":                 switches("Sec-WebSocket-Extensions: permessage-deflate"),
		"a subprotocol nobody offered": switches("Sec-WebSocket-Protocol: c"),
		"two subprotocols":             switches("Sec-WebSocket-Protocol: a", "Sec-WebSocket-Protocol: b"),
		"a body":                       switches("Content-Length: 4"),
	} {
		v := newVault(t, says(answer+to(0x81, "more")))
		got, _ := v.ask(handshake("Sec-WebSocket-Protocol: a, b", "Sec-WebSocket-Extensions: permessage-deflate"))
		o := <-v.done
		if !strings.HasPrefix(got, "HTTP/1.1 502") || strings.Contains(got, "more") {
			t.Errorf("%s: %q", name, got)
		}
		if !strings.Contains(o.seen, "Authorization: Bearer "+value) || strings.Contains(o.seen, "Extensions") {
			t.Errorf("%s: the host saw %q", name, o.seen)
		}
	}
	v := newVault(t, says("HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\n"+"no!"))
	if got, err := v.ask(handshake()); err != nil || !strings.HasPrefix(got, "HTTP/1.1 401 No\r\n") || !strings.HasSuffix(got, "no!") {
		t.Errorf("a refusal: %v, %q", err, got)
	}
	<-v.done
	v = newVault(t, says(switches("Sec-WebSocket-Protocol: b")+to(0x88, "")))
	if got, _ := v.ask(handshake("Sec-WebSocket-Protocol: a, b")); !strings.HasPrefix(got, "HTTP/1.1 101 ") || !strings.Contains(got, "\r\nSec-WebSocket-Protocol: b\r\n") {
		t.Errorf("the control: %q", got)
	}
	<-v.done
}
