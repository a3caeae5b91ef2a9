package agent_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/agent/agentpb"
)

// hostileGuest says hello, waits until the host has opened some streams, then
// says what it was told and leaves.
type hostileGuest struct {
	hello, says io.Reader

	mu     sync.Mutex
	opens  int // still to come
	opened chan struct{}
	closed chan struct{}
}

func (g *hostileGuest) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for b := p; len(b) >= 4; {
		n := binary.BigEndian.Uint32(b)
		var f agentpb.Frame
		if err := proto.Unmarshal(b[4:4+n], &f); err != nil {
			return 0, err
		}
		if f.GetOpen() != nil {
			if g.opens--; g.opens == 0 {
				close(g.opened)
			}
		}
		b = b[4+n:]
	}
	return len(p), nil
}

func (g *hostileGuest) Read(p []byte) (int, error) {
	if n, _ := g.hello.Read(p); n > 0 {
		return n, nil
	}
	select {
	case <-g.opened:
		return g.says.Read(p)
	case <-g.closed:
		return 0, io.EOF
	}
}

func (g *hostileGuest) Close() error {
	close(g.closed) // the connection closes it once
	return nil
}

// hostile is a client of a guest that, after so many requests, says the bytes.
func hostile(t testing.TB, opens int, says []byte) *agent.Client {
	t.Helper()
	c, err := agent.Dial(t.Context(), &hostileGuest{
		hello: bytes.NewReader(frames(t, hello(agent.ProtocolVersion))), says: bytes.NewReader(says),
		opens: opens, opened: make(chan struct{}), closed: make(chan struct{}),
	})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func closing(stream uint32, r *agentpb.Reply) *agentpb.Frame {
	return &agentpb.Frame{Stream: stream, Body: &agentpb.Frame_Close{Close: r}}
}

func data(stream, channel uint32, b []byte) *agentpb.Frame {
	return &agentpb.Frame{Stream: stream, Channel: channel, Body: &agentpb.Frame_Data{Data: b}}
}

func TestHostileExits(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*agentpb.Reply{
		"no exit":           {},
		"exit out of range": {Exit: &agentpb.Exit{Code: 256}},
		"negative":          {Exit: &agentpb.Exit{Code: -1}},
		"no such signal":    {Exit: &agentpb.Exit{Signal: 65}},
		"an error":          {Error: "\x1b]0;owned\x07" + strings.Repeat("x", 100_000)},
	} {
		c := hostile(t, 1, frames(t, closing(1, r)))
		p, err := c.Exec(t.Context(), command("true"), agent.Stdio{})
		must(t, err)
		_, err = p.Wait()
		if err == nil {
			t.Errorf("%s: was taken for an exit", name)
		} else if strings.ContainsAny(err.Error(), "\x1b\x07") || len(err.Error()) > 5000 {
			t.Errorf("%s: the message reaches a terminal as it came: %.100q", name, err)
		}
	}
}

func TestMoreThanAsked(t *testing.T) {
	t.Parallel()
	var list []*agentpb.Frame
	for range 8 {
		list = append(list, data(1, 1, make([]byte, 256<<10)))
	}
	c := hostile(t, 1, frames(t, append(list, closing(1, &agentpb.Reply{}))...))
	var got bytes.Buffer
	err := c.Get(t.Context(), agent.GetRequest{Dir: "/", MaxBytes: 1000, MaxEntries: 1}, &got)
	if err == nil || got.Len() > 1<<20+64<<10 {
		t.Errorf("%v after %d bytes", err, got.Len())
	}
}

// FuzzClient runs requests against a guest that answers with anything. All must
// return, without a panic, and nothing may be taken for a valid outcome that
// breaks its bounds.
func FuzzClient(f *testing.F) {
	f.Add(frames(f, closing(1, &agentpb.Reply{Exit: &agentpb.Exit{Code: 1}}), closing(3, &agentpb.Reply{Info: &agentpb.FileInfo{Path: "/a"}})))
	f.Add(frames(f, data(1, 1, []byte("out")), data(1, 2, []byte("err")), data(5, 1, []byte("tar")), closing(5, &agentpb.Reply{Error: "e", Errno: 2})))
	f.Add(frames(f, &agentpb.Frame{Stream: 1, Channel: 0, Body: &agentpb.Frame_Credit{Credit: 5}}, &agentpb.Frame{Stream: 1, Channel: 1, Body: &agentpb.Frame_End{End: true}}))
	f.Fuzz(func(t *testing.T, says []byte) {
		c := hostile(t, 3, says)
		ctx := t.Context()
		p, err := c.Exec(ctx, command("true"), agent.Stdio{Stdin: strings.NewReader("in"), Stdout: io.Discard, Stderr: io.Discard})
		must(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			if fi, err := c.Stat(ctx, "/a"); err == nil && (fi.Size < 0 || len(fi.Path) > 4096) {
				t.Errorf("%+v", fi)
			}
		})
		wg.Go(func() {
			var out bytes.Buffer
			_ = c.Get(ctx, agent.GetRequest{Dir: "/", MaxBytes: 1, MaxEntries: 1}, &out)
			if out.Len() > 2<<20 {
				t.Error(out.Len(), "bytes")
			}
		})
		wg.Go(func() {
			if exit, err := p.Wait(); err == nil && (exit.Code < 0 || exit.Code > 255 || exit.Signal < 0) {
				t.Errorf("%+v", exit)
			}
		})
		wg.Wait()
	})
}
