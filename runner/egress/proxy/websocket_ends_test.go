package proxy

import (
	"io"
	"strings"
	"testing"
)

// TestMidFrame: a client that is refused while a frame comes to it sees that this has no
// end, and no Close in its middle.
func TestMidFrame(t *testing.T) {
	t.Parallel()
	whole := to(0x82, strings.Repeat("x", 1000))
	v := newVault(t, speaks(whole[:500]))
	g := v.dial()
	in := g.open(t)
	begun := make([]byte, 100)
	if _, err := io.ReadFull(in, begun); err != nil {
		t.Fatal(err)
	}
	g.send(from(0x81, g.v.with("@TOKEN@")))
	rest, err := io.ReadAll(in)
	said := whole[:500] + to(0x88, "\x03\xe8") // what the host says in the end may still come, as part of the frame
	if err == nil || !strings.HasPrefix(said[100:], string(rest)) {
		t.Errorf("%v, %q", err, rest)
	}
	<-g.served
	<-v.done
	if got := v.refusals(); len(got) != 1 || got[0] != "secret_misplaced" {
		t.Error(got)
	}
}

// TestWebSocketEnds: whoever leaves, and however, nothing is left.
func TestWebSocketEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host   func(*visit)
		client func(*guest, io.Reader)
	}{
		"the client, with a Close":          {speaks(), func(g *guest, _ io.Reader) { g.send(from(0x88, "")) }},
		"the client, with a word":           {speaks(), func(g *guest, _ io.Reader) { g.Close() }},
		"the client, without a word":        {speaks(), func(g *guest, _ io.Reader) { g.raw.Close() }},
		"the client, within a frame":        {speaks(), func(g *guest, _ io.Reader) { g.send(from(0x81, "abc")[:8]); g.raw.Close() }},
		"the host, with a Close":            {says(switches() + to(0x88, "")), func(g *guest, in io.Reader) { _, _ = io.Copy(io.Discard, in); g.Close() }},
		"the host, and the client answers":  {speaks(to(0x88, "")), func(g *guest, in io.Reader) { _, _ = io.ReadFull(in, make([]byte, 2)); g.send(from(0x88, "")) }},
		"the host, without a word":          {says(switches()), func(g *guest, in io.Reader) { _, _ = io.Copy(io.Discard, in); g.Close() }},
		"the host, abruptly":                {func(o *visit) { o.until("\r\n\r\n"); o.say(switches()); o.raw.Close() }, func(g *guest, in io.Reader) { _, _ = io.Copy(io.Discard, in); g.raw.Close() }},
		"the client, that was sent a frame": {speaks(to(0x81, "a")), func(g *guest, in io.Reader) { _, _ = io.ReadFull(in, make([]byte, 3)); g.raw.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, c.host)
			g := v.dial()
			c.client(g, g.open(t))
			<-g.served
			<-v.done
		})
	}
}
