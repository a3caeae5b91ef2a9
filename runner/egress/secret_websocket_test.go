package egress_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/egress/websocket"
)

const (
	wsKey   = "AAAAAAAAAAAAAAAAAAAAAA=="
	wsField = "Sec-WebSocket-Key: " + wsKey
)

var wsFields = []string{
	"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", wsField, "Sec-WebSocket-Extensions: permessage-deflate",
}

// whole and part are frames of a server.
func whole(opcode byte, text string) string {
	return string(websocket.Header{Fin: true, Opcode: opcode, Length: int64(len(text))}.Append(nil)) + text
}

func part(opcode byte, text string) string {
	return string(websocket.Header{Opcode: opcode, Length: int64(len(text))}.Append(nil)) + text
}

// frameForm is what a host says behind the handshake, of the Authorization that it has got.
type frameForm struct {
	say func(value string) string
	// fields are more of its answer's.
	fields string
}

// frameForms are by the path that asks for them, /v1/ws/FORM.
var frameForms = map[string]frameForm{
	"echo":    {say: func(string) string { return "" }},
	"text":    {say: func(v string) string { return whole(websocket.Text, v) }},
	"ping":    {say: func(v string) string { return whole(websocket.Ping, v) }},
	"closing": {say: func(v string) string { return whole(websocket.Close, "\x03\xe8"+v) }},
	"bytes": {say: func(v string) string {
		b := part(websocket.Text, "")
		for i := range len(v) {
			b += part(websocket.Continuation, v[i:i+1]) + whole(websocket.Ping, "")
		}
		return b + whole(websocket.Continuation, "")
	}},
	"messages": {say: func(v string) string { return whole(websocket.Text, v[:20]) + whole(websocket.Text, v[20:]) }},

	"long-ping":    {say: func(v string) string { return whole(websocket.Ping, v+strings.Repeat(" ", 126)) }},
	"masked":       {say: func(v string) string { return string([]byte{0x81, 0x80 | byte(len(v)), 0, 0, 0, 0}) + v }},
	"compressed":   {say: func(v string) string { return "\xc1" + whole(websocket.Text, v)[1:] }},
	"reserved":     {say: func(v string) string { return whole(websocket.Binary+1, v) }},
	"extension":    {say: func(v string) string { return whole(websocket.Text, v) }, fields: "Sec-WebSocket-Extensions: permessage-deflate\r\n"},
	"subprotocol":  {say: func(v string) string { return whole(websocket.Text, v) }, fields: "Sec-WebSocket-Protocol: x\r\n"},
	"wrong-accept": {say: func(v string) string { return whole(websocket.Text, v) }, fields: "Sec-WebSocket-Accept: " + wsKey + "\r\n"},
}

// speak is the host of a WebSocket: it says something, echoes messages up to a Close, and
// notes what it has heard.
func (v *vault) speak(rw http.ResponseWriter, r *http.Request, name string) {
	c, ahead, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	form, sent := frameForms[name], r.Header.Get("Authorization")
	_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n%s\r\n%s",
		websocket.Accept(r.Header.Get("Sec-WebSocket-Key")), form.fields, form.say(sent))
	heard := echo(c, ahead.Reader)
	v.note(false, fmt.Sprintf("GET %s %s [%s] %v", r.URL, sent, heard, r.Header))
	select {
	case v.spoken <- struct{}{}:
	default: // nobody expects it
	}
}

// echo says again what it hears.
func echo(c net.Conn, in *bufio.Reader) (heard string) {
	frames := websocket.FromClient(in)
	for {
		h, err := frames.Next()
		if err != nil {
			return heard
		}
		text, _ := io.ReadAll(frames)
		for i := range text {
			text[i] ^= h.Key[i%4]
		}
		heard += string(text)
		if !h.Control() {
			_, _ = io.WriteString(c, whole(websocket.Text, "heard "+string(text)))
		}
		if h.Opcode == websocket.Close {
			_, _ = io.WriteString(c, whole(websocket.Close, "\x03\xe8"))
		}
	}
}

// framedTheft is one row: frames that are sent, or a form that they are asked in.
type framedTheft struct {
	name, form string
	frames     []frame
	pieces     int
	// reason is the refusal's; with none, said must be in what the client got.
	reason, said string
	// residual says that the value gets through, as the documentation has it.
	residual bool
}

var aKey = []byte{0x51, 0xa2, 0x13, 0xf4}

func masked(first byte, text string) frame { return frame{first, []byte(text), aKey} }

func framed() []framedTheft {
	const misplaced, broken, fin = "secret_misplaced", "bad_request", 0x80
	long := strings.Repeat("x", 126)
	bye := masked(fin|websocket.Close, "")
	list := []framedTheft{
		{name: "a message", frames: []frame{masked(fin|websocket.Text, "hello"), bye}, said: "heard hello"},
		{name: "a placeholder", frames: []frame{masked(fin|websocket.Text, "t=@TOKEN@")}, reason: misplaced},
		{name: "without a mask to hide it", frames: []frame{{fin | websocket.Binary, []byte("@TOKEN@"), make([]byte, 4)}}, reason: misplaced},
		{name: "in pieces on the way", frames: []frame{masked(fin|websocket.Binary, "t=@TOKEN@")}, pieces: 48, reason: misplaced},
		{name: "behind another message", frames: []frame{masked(fin|websocket.Text, "a"), masked(fin|websocket.Text, "@TOKEN@")}, reason: misplaced},
		{name: "in two frames", frames: []frame{masked(websocket.Text, "@HALF@"), masked(fin, "@REST@")}, reason: misplaced},
		{name: "in two messages", frames: []frame{masked(fin|websocket.Text, "@HALF@"), masked(fin|websocket.Text, "@REST@")}, reason: misplaced},
		{
			name: "around a ping", frames: []frame{masked(websocket.Text, "@HALF@"), masked(fin|websocket.Ping, "p"), masked(fin, "@REST@")},
			reason: misplaced,
		},
		{name: "in a ping", frames: []frame{masked(fin|websocket.Ping, "@TOKEN@")}, reason: misplaced},
		{name: "in a Close", frames: []frame{masked(fin|websocket.Close, "\x03\xe8@TOKEN@")}, reason: misplaced},
		{name: "no mask", frames: []frame{{fin | websocket.Text, []byte("a"), nil}}, reason: broken},
		{name: "a long ping", frames: []frame{masked(fin|websocket.Ping, long)}, reason: broken},
		{name: "a ping in parts", frames: []frame{masked(websocket.Ping, "p")}, reason: broken},
		{name: "compressed", frames: []frame{masked(fin|0x40|websocket.Text, "a")}, reason: broken},
		{name: "an opcode that is reserved", frames: []frame{masked(fin|7, "a")}, reason: broken},
	}
	said := map[string]string{
		"text": "*****", "ping": "*****", "closing": "*****", "bytes": "*****", "messages": "heard",
		"long-ping": "can't read", "masked": "can't read", "compressed": "can't read", "reserved": "can't read",
		"extension": " 502 ", "subprotocol": " 502 ", "wrong-accept": " 502 ",
	}
	for _, form := range slices.Sorted(maps.Keys(said)) {
		list = append(list, framedTheft{
			name: "said: " + form, form: form, frames: []frame{masked(fin|websocket.Text, "a"), bye}, said: said[form], residual: form == "messages",
		})
	}
	return list
}

// wholePlaceholder is what no host may see. Of one that is cut the beginning has gone.
var wholePlaceholder = regexp.MustCompile(`quavon_secret_[A-Z2-7]{26}`)

// stealFrames tries one row between two controls.
func (in *lair) stealFrames(t *testing.T, row framedTheft) {
	t.Helper()
	in.control(t)
	form := row.form
	if form == "" {
		form = "echo"
	}
	a := asks("/v1/ws/"+form, wsFields...)
	a.Frames, a.Pieces = row.frames, row.pieces
	o := in.try(t, a)
	head, frames, _ := strings.Cut(o.Answer, "\r\n\r\n")
	text := head + joined(frames)
	if found := strings.Contains(text, realValue); found != row.residual {
		t.Errorf("the value is found: %v in %q", found, text)
	}
	want := row.said
	if row.reason != "" {
		want = "refused by quavon: " + row.reason
	}
	if !strings.Contains(text, want) {
		t.Errorf("%q isn't in %q, %s", want, text, o.Err)
	}
	select {
	case <-in.v.spoken:
	case <-time.After(time.Minute):
		t.Error("the host's connection doesn't end")
	}
	seen := strings.Join(in.v.take(), "\n")
	if wholePlaceholder.MatchString(seen) || !strings.Contains(seen, "GET /v1/ws/"+form+" Bearer "+realValue+" ") || strings.Contains(seen, "deflate") {
		t.Errorf("the host saw %s", seen)
	}
	in.control(t)
}

// joined are the payloads of a host's frames, one behind the other.
func joined(frames string) string {
	r := websocket.FromServer(bufio.NewReader(strings.NewReader(frames)))
	text := ""
	for {
		if _, err := r.Next(); err != nil {
			if errors.Is(err, websocket.ErrFrame) {
				text += err.Error()
			}
			return text
		}
		b, _ := io.ReadAll(r)
		text += string(b)
	}
}
