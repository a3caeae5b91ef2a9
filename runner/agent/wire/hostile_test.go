package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

func encode(t testing.TB, frames ...*agentpb.Frame) []byte {
	t.Helper()
	var b []byte
	for _, f := range frames {
		var err error
		if b, err = appendFrame(b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func hello(v uint32) *agentpb.Frame {
	return &agentpb.Frame{Body: &agentpb.Frame_Hello{Hello: &agentpb.Hello{Version: v}}}
}

func data(stream, ch uint32, n int) *agentpb.Frame {
	return &agentpb.Frame{Stream: stream, Channel: ch, Body: &agentpb.Frame_Data{Data: make([]byte, n)}}
}

func repeat(f *agentpb.Frame, n int) []*agentpb.Frame {
	all := make([]*agentpb.Frame, n)
	for i := range all {
		all[i] = f
	}
	return all
}

// hostile are things that a peer may say to a host which has opened stream 1;
// each costs it the connection.
func hostile(t testing.TB) map[string][]byte {
	end := &agentpb.Frame{Stream: 1, Channel: 1, Body: &agentpb.Frame_End{End: true}}
	closing := &agentpb.Frame{Stream: 1, Body: &agentpb.Frame_Close{Close: &agentpb.Reply{}}}
	credit := func(ch, n uint32) *agentpb.Frame {
		return &agentpb.Frame{Stream: 1, Channel: ch, Body: &agentpb.Frame_Credit{Credit: n}}
	}
	return map[string][]byte{
		"an empty frame":           {0, 0, 0, 0},
		"a huge frame":             {0xff, 0xff, 0xff, 0xff},
		"a frame above the bound":  binary.BigEndian.AppendUint32(nil, MaxFrame+1),
		"garbage":                  {0, 0, 0, 3, 0xff, 0xff, 0xff},
		"an empty message":         encode(t, &agentpb.Frame{Stream: 1}),
		"a second hello":           encode(t, hello(version)),
		"an answer to no ping":     encode(t, &agentpb.Frame{Body: &agentpb.Frame_Pong{Pong: 9}}),
		"data of the connection":   encode(t, data(0, 1, 1)),
		"data of no stream":        encode(t, data(3, 1, 1)),
		"data the wrong way":       encode(t, data(1, 0, 1)),
		"data of no channel":       encode(t, data(1, 3, 1)),
		"data without credit":      encode(t, repeat(data(1, 1, MaxData), Window/MaxData+1)...),
		"data after the end":       encode(t, end, data(1, 1, 1)),
		"two ends":                 encode(t, end, end),
		"a frame after the close":  encode(t, closing, end),
		"two closes":               encode(t, closing, closing),
		"credit that is too much":  encode(t, credit(0, 1)),
		"a credit of nothing":      encode(t, credit(0, 0)),
		"credit for its own":       encode(t, credit(1, 1)),
		"a control message":        encode(t, &agentpb.Frame{Stream: 1, Body: &agentpb.Frame_Control{Control: &agentpb.Control{}}}),
		"a stream of ours":         encode(t, &agentpb.Frame{Stream: 3, Body: &agentpb.Frame_Open{Open: &agentpb.Request{}}}),
		"a stream nobody asks for": encode(t, &agentpb.Frame{Stream: 2, Body: &agentpb.Frame_Open{Open: &agentpb.Request{}}}),
	}
}

// rawPeer is a connection whose peer is the test itself.
func rawPeer(t *testing.T, cfg Config) (*Conn, net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { b.Close() })
	return serve(t, a, cfg), b
}

func TestViolations(t *testing.T) {
	t.Parallel()
	for name, bytes := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, peer := rawPeer(t, Config{Side: Host})
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				_, _ = io.Copy(io.Discard, peer)
			}()
			s := open(t, c)
			_, _ = peer.Write(encode(t, hello(version)))
			_, _ = peer.Write(bytes) // fails when the connection ends early
			wait(t, c.Done())
			var v *Violation
			if !errors.As(c.Err(), &v) {
				t.Errorf("the connection ends with %v, want a violation", c.Err())
			}
			wait(t, s.Done())
			<-drained
		})
	}
}

// A frame may hold a little more data than this side ever sends in one.
func TestDataLargerThanABuffer(t *testing.T) {
	t.Parallel()
	for _, id := range []uint32{1, 2} {
		accepted := make(chan *Stream, 1)
		c, peer := rawPeer(t, Config{Side: Host, Accept: func(s *Stream, _ *agentpb.Request) { accepted <- s }})
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		s, ch, size := open(t, c), Out, MaxData+500
		_, _ = peer.Write(encode(t, hello(version)))
		if id == 2 {
			_, _ = peer.Write(encode(t, &agentpb.Frame{Stream: id, Body: &agentpb.Frame_Open{Open: &agentpb.Request{}}}))
			s, ch, size = <-accepted, In, NarrowWindow
		}
		go func() { _, _ = peer.Write(encode(t, data(id, uint32(ch), size))) }()
		if n, err := io.ReadFull(s.Reader(ch), make([]byte, size)); err != nil {
			t.Errorf("stream %d: %d bytes of %d, %v", id, n, size, err)
		}
	}
}

func wait(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("nothing happened in time")
	}
}

func TestFirstFrame(t *testing.T) {
	t.Parallel()
	var v *Violation
	var ve *VersionError
	for name, c := range map[string]struct {
		send []byte
		want any
	}{
		"not a hello":     {encode(t, data(1, 1, 1)), &v},
		"a shell's words": {[]byte("sh: quavon-guest: not found\n"), &v},
		"another version": {encode(t, hello(version+1)), &ve},
		"silence":         {nil, nil},
		"half a frame":    {[]byte{0, 0, 0, 9, 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, peer := rawPeer(t, Config{Side: Host})
			go func() {
				_, _ = io.CopyN(io.Discard, peer, int64(len(encode(t, hello(version)))))
				_, _ = peer.Write(c.send)
				_ = peer.Close()
			}()
			err := conn.Handshake(t.Context())
			if err == nil || c.want != nil && !errors.As(err, c.want) {
				t.Errorf("handshake: %v", err)
			}
		})
	}
}

// TestDeafPeer sends pings and never reads an answer: what is queued for it is
// bounded.
func TestDeafPeer(t *testing.T) {
	t.Parallel()
	c, peer := rawPeer(t, Config{Side: Host})
	if _, err := peer.Write(encode(t, hello(version))); err != nil {
		t.Fatal(err)
	}
	pings := encode(t, repeat(&agentpb.Frame{Body: &agentpb.Frame_Ping{Ping: 1 << 60}}, 10_000)...)
	for range 100 {
		if _, err := peer.Write(pings); err != nil {
			break
		}
	}
	wait(t, c.Done())
	if !errors.Is(c.Err(), errQueueFull) {
		t.Error("the connection ends with", c.Err())
	}
}

// FuzzHost feeds a host that has streams in all states with what a guest may
// send. The connection must end without a panic, a hang or a leak.
func FuzzHost(f *testing.F) {
	f.Add([]byte(nil))
	for _, b := range hostile(f) {
		if len(b) < 1<<16 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		peer := &script{Reader: io.MultiReader(bytesReader(encode(t, hello(version))), bytesReader(b))}
		c := New(peer, Config{Side: Host, Version: version, Accept: func(s *Stream, _ *agentpb.Request) { _ = s.Close(nil) }})
		s1, s2, s3 := open(t, c), open(t, c), open(t, c)
		_ = s2.Close(nil)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, s3.Reader(Err))
		}()
		if err := c.Serve(); err == nil {
			t.Error("a connection that ends without a reason")
		}
		<-read
		wait(t, s1.Done())
		held := 0
		for _, c := range s1.in[Out].queue {
			held += len(c.buf.b)
		}
		if held > 2*(Window+MaxData) {
			t.Errorf("%d bytes are held", held)
		}
	})
}
