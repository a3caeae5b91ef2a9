package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

const version = 7

// patience is for what comes soon, on a machine that isn't busy.
const patience = time.Minute

// serve runs a connection until the test ends.
func serve(t *testing.T, rw io.ReadWriteCloser, cfg Config) *Conn {
	t.Helper()
	cfg.Version = version
	c := New(rw, cfg)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = c.Serve()
	}()
	t.Cleanup(func() {
		c.Close()
		<-served
	})
	return c
}

// transports are the byte streams that the tests run over.
var transports = map[string]func(t *testing.T) (host, guest io.ReadWriteCloser){
	"net.Pipe": func(*testing.T) (host, guest io.ReadWriteCloser) { return net.Pipe() },
	"pipes": func(t *testing.T) (host, guest io.ReadWriteCloser) {
		r1, w1, err1 := os.Pipe()
		r2, w2, err2 := os.Pipe()
		h, err3 := NewFiles(r1, w2)
		g, err4 := NewFiles(r2, w1)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		return h, g
	},
}

// each runs a test over every transport.
func each(t *testing.T, accept func(*Stream, *agentpb.Request), f func(t *testing.T, host *Conn)) {
	for name, dial := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, g := dial(t)
			host := serve(t, h, Config{Side: Host})
			serve(t, g, Config{Side: Guest, Accept: accept})
			if err := host.Handshake(t.Context()); err != nil {
				t.Fatal(err)
			}
			f(t, host)
		})
	}
}

// echo sends what it receives back on channel Out.
func echo(s *Stream, _ *agentpb.Request) {
	go func() {
		w := s.Writer(Out)
		_, err := io.Copy(w, s.Reader(In))
		_ = w.Close()
		reply := &agentpb.Reply{}
		if err != nil {
			reply.Error = err.Error()
		}
		_ = s.Close(reply)
	}()
}

func open(t *testing.T, c *Conn) *Stream {
	t.Helper()
	s, err := c.Open(&agentpb.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ping fails the test unless the peer answers soon.
func ping(t *testing.T, c *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		t.Fatal("ping:", err)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	each(t, echo, func(t *testing.T, host *Conn) {
		data := make([]byte, 3*Window+12345)
		for i := range data {
			data[i] = byte(i * 7 >> 3)
		}
		var wg sync.WaitGroup
		for range 3 {
			s := open(t, host)
			wg.Go(func() {
				w := s.Writer(In)
				if _, err := w.Write(data); err != nil {
					t.Error(err)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				got := sha256.New()
				if _, err := io.Copy(got, s.Reader(Out)); err != nil {
					t.Error(err)
				}
				if want := sha256.Sum256(data); !bytes.Equal(got.Sum(nil), want[:]) {
					t.Error("the echo differs")
				}
				<-s.Done()
				if r, err := s.Reply(); err != nil || r.GetError() != "" {
					t.Error(r, err)
				}
				if err := s.Close(nil); err != nil {
					t.Error(err)
				}
			})
		}
		ping(t, host)
		wg.Wait()
		host.mu.Lock()
		defer host.mu.Unlock()
		if n := len(host.streams); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// TestStalledReader has one stream that nobody reads; all else goes on.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	flood := func(s *Stream, req *agentpb.Request) {
		if req.GetStat() != nil {
			echo(s, req)
			return
		}
		go func() {
			w := s.Writer(Out)
			for {
				if _, err := w.Write(make([]byte, 100_000)); err != nil {
					return
				}
			}
		}()
	}
	each(t, flood, func(t *testing.T, host *Conn) {
		stalled := open(t, host)
		in := stalled.in[Out]
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			in.mu.Lock()
			full := in.window == 0
			in.mu.Unlock()
			if full {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the stream never filled its window")
			}
		}
		ping(t, host)
		s, err := host.Open(&agentpb.Request{Op: &agentpb.Request_Stat{}})
		if err != nil {
			t.Fatal(err)
		}
		w := s.Writer(In)
		if _, err := w.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(s.Reader(Out)); err != nil || string(b) != "hello" {
			t.Fatalf("%q, %v", b, err)
		}
	})
}

// TestGivenUp closes a stream whose other side still sends.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	result := make(chan error, len(transports))
	accept := func(s *Stream, _ *agentpb.Request) {
		go func() {
			_, err := io.Copy(io.Discard, s.Reader(In))
			_ = s.Close(&agentpb.Reply{})
			result <- err
		}()
	}
	each(t, accept, func(t *testing.T, host *Conn) {
		s := open(t, host)
		w := s.Writer(In)
		if _, err := w.Write(make([]byte, MaxData+1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, MaxData)); !errors.Is(err, ErrClosed) {
			t.Error("writing to a closed stream:", err)
		}
		if err := <-result; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the acceptor reads to %v, want an unexpected EOF", err)
		}
		ping(t, host)
	})
}

func TestPeerGone(t *testing.T) {
	t.Parallel()
	each(t, func(*Stream, *agentpb.Request) {}, func(t *testing.T, host *Conn) {
		s := open(t, host)
		go host.rw.Close()
		<-s.Done()
		if _, err := s.Reply(); err == nil {
			t.Error("a reply from nobody")
		}
		if _, err := s.Reader(Out).Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Error("reading a lost stream:", err)
		}
		if err := host.Ping(t.Context()); err == nil {
			t.Error("a ping was answered by nobody")
		}
	})
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	each(t, func(*Stream, *agentpb.Request) {}, func(t *testing.T, host *Conn) {
		for range MaxStreams {
			open(t, host)
		}
		if _, err := host.Open(&agentpb.Request{}); err == nil {
			t.Error("one stream too many was opened")
		}
		ping(t, host)
	})
}

// TestCrossing: what the opener has sent when the acceptor closes the stream is
// passed over.
func TestCrossing(t *testing.T) {
	t.Parallel()
	accept := func(s *Stream, _ *agentpb.Request) { _ = s.Close(&agentpb.Reply{}) }
	each(t, accept, func(t *testing.T, host *Conn) {
		for range 100 {
			s := open(t, host)
			w := s.Writer(In)
			for {
				if _, err := w.Write(make([]byte, MaxData)); err != nil {
					break
				}
			}
			w.Release()
			<-s.Done()
			if err := s.Control(&agentpb.Control{}); !errors.Is(err, ErrClosed) {
				t.Error("a control message to a closed stream:", err)
			}
		}
		ping(t, host)
	})
}
