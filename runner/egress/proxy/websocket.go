package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/websocket"
	"github.com/quavon/quavon/runner/secret"
)

// errInFrame says where a placeholder was.
var errInFrame = fmt.Errorf("%w: in a WebSocket frame", secret.ErrMisplaced)

const (
	// frameBuffer is how much of a frame is moved at once, in bytes.
	frameBuffer = 16 << 10
	// closeTime is how long a client has to answer a Close.
	closeTime = 10 * time.Second
)

// checkUpgrade lets the one protocol through that can be read behind a change of it.
func (r *request) checkUpgrade() error {
	keys := r.all("sec-websocket-key")
	if r.method != "GET" || r.version != "HTTP/1.1" || !strings.EqualFold(r.upgrade(), "websocket") ||
		!slices.Equal(r.all("sec-websocket-version"), []string{websocket.Version}) || len(keys) != 1 || !websocket.IsKey(keys[0]) {
		return errUpgrade
	}
	r.remove("sec-websocket-extensions") // compressed frames couldn't be read
	return nil
}

// checkSwitch looks at a host's answer that it speaks WebSocket from now on.
func (r *request) checkSwitch(h *head) error {
	protocols := h.all("sec-websocket-protocol")
	switch {
	case !strings.EqualFold(h.upgrade(), "websocket"):
		return bad("a change to another protocol than WebSocket")
	case !slices.Equal(h.all("sec-websocket-accept"), []string{websocket.Accept(r.all("sec-websocket-key")[0])}):
		return bad("a Sec-WebSocket-Accept that is not the key's")
	case len(h.all("sec-websocket-extensions")) > 0:
		return bad("an extension of WebSocket that nobody asked for")
	case len(protocols) > 1 || len(protocols) == 1 && !slices.Contains(r.tokens("sec-websocket-protocol"), strings.ToLower(protocols[0])):
		return bad("a protocol within WebSocket that nobody asked for")
	}
	return nil
}

// webSocket is a connection to a secret's host behind the handshake.
type webSocket struct {
	c  *client
	up Conn
	// why holds a Close frame for a client that is refused.
	why atomic.Pointer[[]byte]

	// Of the way back: the values, what is left of a message's frames so far and how much
	// of it waits, its opcode until a frame of it was sent, and two buffers.
	values   secret.Scrubber
	held     int64
	opcode   byte
	text, to []byte
	// mid says that a frame was begun, closed that the last one was sent.
	mid, closed bool
}

// webSocket moves frames until both ends are done. An error is for a client that has to
// see that something is missing.
func (c *client) webSocket(up Conn, in *input, p *secret.Patterns) error {
	c.reply = replyNothing{}
	w := &webSocket{c: c, up: up, values: secret.Scrubber{Patterns: p}, text: make([]byte, frameBuffer)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.there()
	}()
	err := w.back(in)
	if err != nil {
		up.Close()
		c.raw.Close()
	}
	timer := time.AfterFunc(closeTime, func() { c.raw.Close() })
	defer timer.Stop()
	<-done
	return err
}

// there moves the client's frames. The way back tells the client why they end.
func (w *webSocket) there() {
	err := w.forward()
	switch {
	case err == nil: // the host answers the Close
		return
	case errors.Is(err, secret.ErrMisplaced):
		w.refuse(ReasonPlaceholder, websocket.PolicyViolation)
	case errors.Is(err, websocket.ErrFrame):
		w.refuse(ReasonRequest, websocket.ProtocolError)
	}
	w.up.Close()
}

func (w *webSocket) refuse(reason policy.Reason, code uint16) {
	w.c.count(reason)
	frame := websocket.Closing(code, "refused by quavon: "+string(reason))
	w.why.Store(&frame)
}

// forward sends frames on as they are, up to a Close. A placeholder's end is not sent,
// whatever frames it is in: those of messages are read as one text, and so are those
// between them.
func (w *webSocket) forward() error {
	r := websocket.FromClient(bufio.NewReaderSize(&w.c.in, frameBuffer))
	out := w.c.meter(w.up, &w.c.sent)
	buf := make([]byte, 0, frameBuffer)
	var messages, control secret.Finder
	for {
		h, err := r.Next()
		if err != nil {
			return err
		}
		find := &messages
		if h.Control() {
			find = &control
		}
		if err := forwardFrame(out, r, h, find, buf); err != nil || h.Opcode == websocket.Close {
			return err
		}
	}
}

func forwardFrame(w io.Writer, r *websocket.Reader, h websocket.Header, find *secret.Finder, buf []byte) error {
	buf = h.Append(buf[:0])
	for at := 0; ; {
		n, err := r.Read(buf[len(buf):cap(buf)])
		text := buf[len(buf) : len(buf)+n]
		for _, b := range text {
			if find.Next(b ^ h.Key[at%4]) {
				return errInFrame
			}
			at++
		}
		if _, err := w.Write(buf[:len(buf)+n]); err != nil {
			return err
		}
		if r.Left() == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		buf = buf[:0]
	}
}

// back moves the host's frames, and tells the client at the end of one why there are no
// more.
func (w *webSocket) back(in *input) error {
	err := w.scrub(in)
	frame := w.why.Load()
	if frame == nil && errors.Is(err, websocket.ErrFrame) {
		closing := websocket.Closing(websocket.ProtocolError, "quavon can't read the server's frames")
		frame = &closing
		w.up.Close()
	}
	switch {
	case w.closed || frame == nil && err == nil:
	case frame == nil || w.mid:
		return errors.Join(err, io.ErrUnexpectedEOF)
	default:
		if err := w.send(*frame); err != nil {
			return err
		}
	}
	return w.c.conn.CloseWrite()
}

func (w *webSocket) send(b []byte) error {
	_, err := w.c.meter(w.c.conn, &w.c.received).Write(b)
	return err
}

// scrub keeps values out of the host's frames, up to a Close. In the frames of a message
// they are found wherever these are cut: what may be the beginning of one is sent with the
// frame that follows. Nothing waits for another message.
func (w *webSocket) scrub(in *input) error {
	r := websocket.FromServer(bufio.NewReaderSize(in, frameBuffer))
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) || w.why.Load() != nil: // also what a host says to the end of one who is refused
			return nil
		case err != nil:
			return err
		case h.Control():
			err = w.control(r, h)
		default:
			if h.Opcode != websocket.Continuation {
				w.opcode = h.Opcode
			}
			if h.Fin {
				err = w.last(r, h)
			} else {
				err = w.part(r)
			}
		}
		if err != nil || w.closed {
			return err
		}
	}
}

// control sends a control frame on.
func (w *webSocket) control(r *websocket.Reader, h websocket.Header) error {
	text := w.text[:h.Length]
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	w.to = append(h.Append(w.to[:0]), w.values.Text(string(text))...)
	w.closed = h.Opcode == websocket.Close
	return w.send(w.to)
}

// part sends on what can be sent of a frame that isn't its message's last, as frames that
// aren't either.
func (w *webSocket) part(r *websocket.Reader) error {
	var clean []byte
	for r.Left() > 0 {
		n, err := r.Read(w.text)
		clean = w.values.Next(clean[:0], w.text[:n])
		w.held += int64(n - len(clean))
		if len(clean) > 0 {
			w.to = append(w.header(false, int64(len(clean))), clean...)
			if err := w.send(w.to); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// last sends on a message's last frame, with what waits. Scrubbing changes no length, so
// that is known before it ends.
func (w *webSocket) last(r *websocket.Reader, h websocket.Header) error {
	w.to = w.header(true, h.Length+w.held)
	w.held = 0
	for {
		n, err := r.Read(w.text)
		w.to = w.values.Next(w.to, w.text[:n])
		done := r.Left() == 0
		if done {
			w.to, err = w.values.Flush(w.to), nil
		}
		if err != nil {
			return err
		}
		w.mid = !done
		if err := w.send(w.to); err != nil || done {
			return err
		}
		w.to = w.to[:0]
	}
}

// header begins a frame of the message.
func (w *webSocket) header(fin bool, length int64) []byte {
	h := websocket.Header{Fin: fin, Opcode: w.opcode, Length: length}
	w.opcode = websocket.Continuation
	return h.Append(w.to[:0])
}
