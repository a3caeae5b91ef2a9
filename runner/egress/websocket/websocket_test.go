package websocket_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/websocket"
)

func TestHandshake(t *testing.T) {
	t.Parallel()
	const key = "dGhlIHNhbXBsZSBub25jZQ==" // the RFC's own example
	if got := websocket.Accept(key); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Error(got)
	}
	for key, want := range map[string]bool{
		key: true, "": false, "dGhlIHNhbXBsZSBub25jZQ": false, "dGhlIHNhbXBsZSBub25jZR==": false, "dGhlIHNhbXBsZSBub25j": false,
		"dGhlIHNhbXBsZSBub25j\r\nZQ==": false,
	} {
		if websocket.IsKey(key) != want {
			t.Errorf("%q", key)
		}
	}
}

// read reads frames until one is none.
func read(r *websocket.Reader) (frames []websocket.Header, payloads []string, err error) {
	for {
		h, err := r.Next()
		if err != nil {
			return frames, payloads, err
		}
		b, err := io.ReadAll(r)
		frames, payloads = append(frames, h), append(payloads, string(b))
		if err != nil {
			return frames, payloads, err
		}
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70000)
	for _, c := range []struct {
		name   string
		client bool
		in     string
		want   string // payloads, each behind a slash
		err    error
	}{
		{"nothing", false, "", "", io.EOF},
		{"a text", false, "\x81\x02ok", "/ok", io.EOF},
		{"masked", true, "\x81\x82\x01\x02\x03\x04ok", "/ok", io.EOF},
		{"empty", false, "\x82\x00", "/", io.EOF},
		{"126 bytes", false, "\x82\x7e\x00\x7e" + long[:126], "/" + long[:126], io.EOF},
		{"70000 bytes", false, "\x82\x7f\x00\x00\x00\x00\x00\x01\x11\x70" + long, "/" + long, io.EOF},
		{"in parts, with a ping between", false, "\x01\x01a\x89\x01p\x00\x01b\x80\x01c\x8a\x00", "/a/p/b/c/", io.EOF},
		{"a close, and behind it", false, "\x88\x02\x03\xe8\x81\x02ok", "/\x03\xe8", io.EOF},
		{"an end in a header", false, "\x81", "", io.ErrUnexpectedEOF},
		{"an end in a length", false, "\x81\x7e\x01", "", io.ErrUnexpectedEOF},
		{"an end before a key", true, "\x81\x82", "", io.ErrUnexpectedEOF},
		{"an end in a payload", false, "\x81\x02o", "/o", io.ErrUnexpectedEOF},
		{"no mask", true, "\x81\x02ok", "", websocket.ErrFrame},
		{"a server's mask", false, "\x81\x82\x00\x00\x00\x00ok", "", websocket.ErrFrame},
		{"compressed", false, "\xc1\x02ok", "", websocket.ErrFrame},
		{"another reserved bit", false, "\x91\x02ok", "", websocket.ErrFrame},
		{"opcode 3", false, "\x83\x02ok", "", websocket.ErrFrame},
		{"opcode 11", false, "\x8b\x02ok", "", websocket.ErrFrame},
		{"a long ping", false, "\x89\x7e\x00\x7e" + long[:126], "", websocket.ErrFrame},
		{"a ping in parts", false, "\x09\x01p\x80\x00", "", websocket.ErrFrame},
		{"half a code", false, "\x88\x01\x03", "", websocket.ErrFrame},
		{"a long form of 125", false, "\x81\x7e\x00\x7d" + long[:125], "", websocket.ErrFrame},
		{"a longer form of 65535", false, "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff" + long[:65535], "", websocket.ErrFrame},
		{"a negative length", false, "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x01x", "", websocket.ErrFrame},
		{"goes on without a beginning", false, "\x80\x01x", "", websocket.ErrFrame},
		{"a beginning within", false, "\x01\x01a\x81\x01b", "/a", websocket.ErrFrame},
		{"goes on behind its end", false, "\x81\x01a\x80\x01b", "/a", websocket.ErrFrame},
	} {
		r := websocket.FromServer(bufio.NewReader(strings.NewReader(c.in)))
		if c.client {
			r = websocket.FromClient(bufio.NewReader(strings.NewReader(c.in)))
		}
		_, payloads, err := read(r)
		got := ""
		for _, p := range payloads {
			got += "/" + p
		}
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %.100q, %v", c.name, got, err)
		}
	}
}

// TestSkipped: a payload that nobody reads isn't taken for a frame.
func TestSkipped(t *testing.T) {
	t.Parallel()
	r := websocket.FromServer(bufio.NewReader(strings.NewReader("\x81\x04\x82\x01xx\x82\x00")))
	for _, want := range []byte{websocket.Text, websocket.Binary} {
		if h, err := r.Next(); err != nil || h.Opcode != want {
			t.Error(h, err)
		}
	}
}

func TestClosing(t *testing.T) {
	t.Parallel()
	b := websocket.Closing(websocket.PolicyViolation, strings.Repeat("x", 200))
	frames, payloads, err := read(websocket.FromServer(bufio.NewReader(bytes.NewReader(b))))
	if !errors.Is(err, io.EOF) || len(frames) != 1 || frames[0].Opcode != websocket.Close || len(payloads[0]) != websocket.MaxControl ||
		payloads[0][:2] != "\x03\xf0" {
		t.Error(frames, payloads, err)
	}
}

// FuzzFrames: what is read is what was written, byte for byte, and keeps to the RFC.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{
		"\x81\x02ok", "\x01\x01a\x89\x01p\x80\x01b\x88\x02\x03\xe8", "\x82\x7e\x00\x7e" + strings.Repeat("x", 126), "\x88\x00", "\xc1\x01x",
	} {
		f.Add([]byte(s), false)
	}
	f.Add([]byte("\x81\x82\x01\x02\x03\x04ok\x80"), true)
	f.Fuzz(func(t *testing.T, b []byte, client bool) {
		in := bufio.NewReader(bytes.NewReader(b))
		r := websocket.FromServer(in)
		if client {
			r = websocket.FromClient(in)
		}
		frames, payloads, err := read(r)
		var out []byte
		within := false
		for i, h := range frames {
			out = append(h.Append(out), payloads[i]...)
			if whole := int64(len(payloads[i])) == h.Length; !whole && i < len(frames)-1 {
				t.Fatalf("%+v has %d bytes", h, len(payloads[i]))
			}
			if h.Control() && (h.Length > websocket.MaxControl || !h.Fin) || h.Masked != client || !h.Control() && within != (h.Opcode == 0) {
				t.Fatalf("%+v", frames)
			}
			if !h.Control() {
				within = !h.Fin
			}
			if h.Opcode == websocket.Close && i < len(frames)-1 {
				t.Fatalf("%+v", frames)
			}
		}
		if !bytes.HasPrefix(b, out) {
			t.Fatalf("%q was read as %q", b, out)
		}
		closed := len(frames) > 0 && frames[len(frames)-1].Opcode == websocket.Close
		if errors.Is(err, io.EOF) && !closed && len(out) != len(b) {
			t.Fatalf("%q ends behind %q", b, out)
		}
	})
}
