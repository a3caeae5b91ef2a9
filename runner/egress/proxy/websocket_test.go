package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/websocket"
)

// handshake asks for a WebSocket, with more fields.
func handshake(more ...string) string {
	return lines(append([]string{
		"GET /v1/ws HTTP/1.1", toBound, bearer, "Connection: keep-alive, Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + wsKey,
	}, more...)...)
}

const wsKey = "dGhlIHNhbXBsZSBub25jZQ=="

// switches answers that key.
func switches(more ...string) string {
	return lines(append([]string{
		"HTTP/1.1 101 Switching Protocols", "Upgrade: WebSocket", "Connection: Upgrade", "Sec-WebSocket-Accept: " + websocket.Accept(wsKey),
	}, more...)...)
}

// from is a client's frame, to a server's. The first byte is FIN and the opcode.
func from(first byte, text string) string {
	key := [4]byte{0x51, 0xa2, 0x13, 0xf4}
	h := websocket.Header{Fin: first&0x80 != 0, Opcode: first & 0x0f, Masked: true, Key: key, Length: int64(len(text))}
	b := h.Append(nil)
	for i := range len(text) {
		b = append(b, text[i]^key[i%4])
	}
	return string(b)
}

func to(first byte, text string) string {
	h := websocket.Header{Fin: first&0x80 != 0, Opcode: first & 0x0f, Length: int64(len(text))}
	return string(h.Append(nil)) + text
}

// told are frames as one text: each one's first byte and payload, without a mask.
func told(r *websocket.Reader) (string, error) {
	var b strings.Builder
	for {
		h, err := r.Next()
		if err != nil {
			return b.String(), err
		}
		text, err := io.ReadAll(r)
		for i := range text {
			text[i] ^= h.Key[i%4]
		}
		fin := ""
		if h.Fin {
			fin = "."
		}
		if h.Opcode == websocket.Close && len(text) >= 2 {
			text = append([]byte(fmt.Sprint(binary.BigEndian.Uint16(text))+" "), text[2:]...)
		}
		fmt.Fprintf(&b, "%d%s[%s]", h.Opcode, fin, text)
		if err != nil {
			return b.String(), err
		}
	}
}

// speaks is a host that switches, says some texts, and listens up to the Close, which it
// answers.
func speaks(texts ...string) func(*visit) {
	return func(o *visit) {
		if !o.until("\r\n\r\n") {
			return
		}
		_, ahead, _ := strings.Cut(o.seen, "\r\n\r\n")
		o.say(append([]string{switches()}, texts...)...)
		o.heard, o.err = told(websocket.FromClient(bufio.NewReader(io.MultiReader(strings.NewReader(ahead), o.Conn))))
		o.say(to(0x88, "\x03\xe8"))
	}
}

// open shakes hands. What follows is read from in.
func (g *guest) open(t *testing.T) (in *input) {
	t.Helper()
	g.send(handshake())
	in = &input{r: g}
	if h, err := in.head(); err != nil || !strings.HasPrefix(h.line, "HTTP/1.1 101 ") {
		t.Fatal(h, err)
	}
	return in
}

// TestFramesToHost: what a host gets of a client's frames: what isn't one, and the end of a
// placeholder, it doesn't.
func TestFramesToHost(t *testing.T) {
	t.Parallel()
	const (
		allowed   = "8.[1000 ]"
		misplaced = "8.[1008 refused by quavon: secret_misplaced]"
		broken    = "8.[1002 refused by quavon: bad_request]"
	)
	long := strings.Repeat("x", 100000)
	v := newVault(t, nil)
	p := v.set[0].Placeholder
	half, rest := p[:20], p[20:]
	for _, c := range []struct {
		name   string
		frames []string
		told   string // to the client
		heard  string // by the host
	}{
		{"messages", []string{from(0x81, "a"), from(0x82, ""), from(0x88, "\x03\xe8")}, allowed, "1.[a]2.[]8.[1000 ]"},
		{"in parts", []string{from(1, "a"), from(0x89, "p"), from(0, "b"), from(0x80, "c"), from(0x88, "")}, allowed, "1[a]9.[p]0[b]0.[c]8.[]"},
		{"a long one", []string{from(0x82, long), from(0x88, "")}, allowed, "2.[" + long + "]8.[]"},
		{"half a placeholder", []string{from(0x81, half), from(0x81, "x"+rest), from(0x88, "")}, allowed, "1.[" + half + "]1.[x" + rest + "]8.[]"},

		{"a text", []string{from(0x81, "a"), from(0x81, "t="+p)}, misplaced, "1.[a]"},
		{"bytes", []string{from(0x82, p+"x")}, misplaced, ""},
		{"behind a lot", []string{from(0x82, long+p)}, misplaced, "2.[" + long[:9]},
		{"in parts", []string{from(1, "t="+half), from(0x80, rest)}, misplaced, "1[t=" + half + "]"},
		{"in parts around a ping", []string{from(1, half), from(0x89, "p"), from(0x80, rest)}, misplaced, "1[" + half + "]9.[p]"},
		{"in two messages", []string{from(0x81, half), from(0x81, rest)}, misplaced, "1.[" + half + "]"},
		{"a ping", []string{from(0x89, p)}, misplaced, ""},
		{"a pong", []string{from(0x8a, p)}, misplaced, ""},
		{"in two pings", []string{from(0x89, half), from(0x81, "a"), from(0x8a, rest)}, misplaced, "9.[" + half + "]1.[a]"},
		{"why it closes", []string{from(0x88, "\x03\xe8"+p)}, misplaced, ""},
		{"a placeholder of nobody", []string{from(0x81, "quavon_secret_"+strings.Repeat("A", 26))}, misplaced, ""},

		{"no mask", []string{to(0x81, "a")}, broken, ""},
		{"compressed", []string{from(0x81, "a"), "\xc1" + from(0x81, "b")[1:]}, broken, "1.[a]"},
		{"a control frame that is long", []string{from(0x89, long[:126])}, broken, ""},
		{"a control frame in parts", []string{from(0x09, "a")}, broken, ""},
		{"an opcode that is reserved", []string{from(0x83, "a")}, broken, ""},
		{"a message within another", []string{from(1, "a"), from(0x81, "b")}, broken, "1[a]"},
		{"a length in another form", []string{"\x81\xfe\x00\x01\x00\x00\x00\x00a"}, broken, ""},
		{"a length that is negative", []string{"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00a"}, broken, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.serve = speaks()
			g := v.dial()
			in := g.open(t)
			for _, frame := range c.frames {
				_, _ = io.WriteString(g, frame)
			}
			got, _ := told(websocket.FromServer(bufio.NewReader(in)))
			g.raw.Close()
			<-g.served
			o := <-v.done
			if got != c.told || !strings.HasPrefix(o.heard, c.heard) || strings.Contains(o.heard, p) || strings.Contains(o.heard, "]8.[]x") {
				t.Errorf("the client was told %.200q, the host heard %.200q", got, o.heard)
			}
			if c.told == allowed && o.heard != c.heard {
				t.Errorf("the host heard %.200q", o.heard)
			}
		})
	}
	if got := len(v.refusals()); got != 19 {
		t.Errorf("%d refusals are counted", got)
	}
}

// TestFramesToClient: what a client gets of a host's frames.
func TestFramesToClient(t *testing.T) {
	t.Parallel()
	const broken = "8.[1002 quavon can't read the server's frames]"
	stars, long := strings.Repeat("*", len(value)), strings.Repeat("x", 100000)
	half, rest := value[:9], value[9:]
	end := to(0x88, "\x03\xe8")
	v := newVault(t, nil)
	for _, c := range []struct {
		name  string
		texts []string
		told  string
		cut   bool
	}{
		{"messages", []string{to(0x81, "a") + to(0x82, "") + to(0x89, "p") + end}, "1.[a]2.[]9.[p]8.[1000 ]", false},
		{"in parts", []string{to(1, "a"), to(0x89, "p"), to(0, ""), to(0x80, "b"), end}, "1[a]9.[p]0.[b]8.[1000 ]", false},
		{"no Close", []string{to(0x81, "a")}, "1.[a]", false},
		{"a long one", []string{to(0x82, long) + end}, "2.[" + long + "]8.[1000 ]", false},

		{"a text", []string{to(0x81, "<"+value+">"), end}, "1.[<" + stars + ">]8.[1000 ]", false},
		{"the end of a text", []string{to(0x81, value), end}, "1.[" + stars + "]8.[1000 ]", false},
		{"behind a lot", []string{to(0x82, long+value+"x"), end}, "2.[" + long + stars + "x]8.[1000 ]", false},
		{"a ping", []string{to(0x89, value), end}, "9.[" + stars + "]8.[1000 ]", false},
		{"why it closes", []string{to(0x88, "\x03\xe8"+value)}, "8.[1000 " + stars + "]", false},
		{"the code too", []string{to(0x88, value)}, "8.[10794 " + stars[2:] + "]", false},
		{"as JSON has it", []string{to(0x81, `{"t":"\u0074r0ub4dor-and-3-words"}`), end}, `1.[{"t":"` + stars + `*****"}]8.[1000 ]`, false},
		{"in two messages, as it is documented", []string{to(0x81, half), to(0x81, rest), end}, "1.[" + half + "]1.[" + rest + "]8.[1000 ]", false},

		{"masked", []string{to(0x81, "a"), from(0x81, "b"), end}, "1.[a]" + broken, false},
		{"compressed", []string{"\xc1" + to(0x81, "a")[1:], end}, broken, false},
		{"a control frame that is long", []string{to(0x89, long[:126]), end}, broken, false},
		{"a control frame in parts", []string{to(0x09, value), end}, broken, false},
		{"an opcode that is reserved", []string{to(0x8f, value), end}, broken, false},
		{"a message within another", []string{to(1, "a"), to(0x81, value), end}, "1[a]" + broken, false},
		{"a part of nothing", []string{to(0x80, value), end}, broken, false},
		{"a length in another form", []string{"\x81\x7e\x00\x01a", end}, broken, false},
		{"an end within a frame", []string{to(0x81, long)[:50000]}, "1.[" + long[:100], true},
		{"an end within a header", []string{"\x81"}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.serve = func(o *visit) {
				o.until("\r\n\r\n")
				o.say(append([]string{switches()}, c.texts...)...)
				o.Close()
			}
			got, err := v.listen(t)
			if c.cut {
				if !strings.HasPrefix(got, c.told) || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%.200q, %v", got, err)
				}
				return
			}
			if got != c.told || !errors.Is(err, io.EOF) {
				t.Errorf("%.200q, %v", got, err)
			}
		})
	}
}

// listen shakes hands and returns the frames that come.
func (v *vault) listen(t *testing.T) (string, error) {
	t.Helper()
	g := v.dial()
	in := g.open(t)
	got, err := told(websocket.FromServer(bufio.NewReader(in)))
	g.raw.Close()
	<-g.served
	<-v.done
	return got, err
}

// TestFramesAreScrubbed: the value is kept out of a message wherever it is cut, into frames
// or on the way.
func TestFramesAreScrubbed(t *testing.T) {
	t.Parallel()
	v := newVault(t, nil)
	want := "<" + strings.Repeat("*", len(value)) + ">"
	var bytewise []string
	for i := range len(value) {
		bytewise = append(bytewise, to(0, value[i:i+1]))
	}
	ways := map[string][]string{"a byte a frame": append(append([]string{to(1, "<")}, bytewise...), to(0x80, ">"))}
	for cut := range len(value) + 1 {
		a, b := value[:cut], value[cut:]
		whole := to(0x81, "<"+value+">")
		ways[fmt.Sprint("two frames, cut at ", cut)] = []string{to(1, "<"+a) + to(0x80, b+">")}
		ways[fmt.Sprint("three frames, cut at ", cut)] = []string{to(1, "<"+a), to(0, b), to(0x89, value), to(0x80, ">")}
		ways[fmt.Sprint("nothing before it, cut at ", cut)] = []string{to(1, ""), to(0, "<"), to(0, a), to(0, b), to(0, ">"), to(0x80, "")}
		ways[fmt.Sprint("on the way at ", cut)] = []string{whole[:3+cut], whole[3+cut:]}
	}
	for name, texts := range ways {
		v.serve = speaks(append(texts, to(0x88, ""))...)
		got, err := v.listen(t)
		text := strings.NewReplacer("1[", "", "0[", "", "0.[", "", "1.[", "", "]", "").Replace(strings.Split(got, "8.[")[0])
		text = strings.Replace(text, "9.["+strings.Repeat("*", len(value)), "", 1)
		if text != want || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
