package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

// work claims and finishes jobs until the test ends, and notes who finished what.
func work(ctx context.Context, t testing.TB, w *queue.Worker, ledger *sync.Map) {
	for ctx.Err() == nil {
		claims, err := w.Claim(ctx, 4)
		if err != nil {
			continue
		}
		for _, c := range claims {
			c.Output(ctx)
			if err := c.Finish(ctx, queue.Outcome{Payload: c.Payload}); err == nil {
				if _, twice := ledger.LoadOrStore(c.ID, true); twice {
					t.Errorf("%s was accepted twice", c.ID)
				}
			}
		}
	}
}

// underFault submits jobs while disturb goes on, and expects every one to end with its
// own result.
func underFault(t *testing.T, s *queuetest.Server, settings conn.Settings, n int, disturb func(done <-chan struct{})) {
	q := open(t, s, func(o *queue.Options) { o.Conn, o.Lease = settings, 3*time.Second })
	ctx := within(t, 4*patience)
	var ledger sync.Map
	working, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	for i := range 2 {
		w := worker(t, open(t, s, func(o *queue.Options) { o.Conn, o.Lease = settings, 3*time.Second }), fmt.Sprintf("r%d", i))
		tasks.Go(func() { work(working, t, w, &ledger) })
	}
	done := make(chan struct{})
	tasks.Go(func() { disturb(done) })
	var jobs sync.WaitGroup
	for i := range n {
		time.Sleep(10 * time.Millisecond)
		jobs.Go(func() {
			id := fmt.Sprintf("j-%d", i)
			ticket, err := q.Submit(ctx, queue.Job{ID: id, Tenant: "a", Class: "host", Payload: []byte(id), Attempts: 9}, nil)
			if err != nil {
				t.Errorf("submit %s: %v", id, err)
				return
			}
			o, err := ticket.Wait(ctx, nil)
			if err != nil || string(o.Payload) != id {
				t.Errorf("%s: %+v, %v", id, o, err)
			}
		})
	}
	jobs.Wait()
	close(done)
}

// Valkey is killed and comes back with what its append-only file has: nothing is lost.
// With "everysec" it may answer up to two seconds before it writes.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t, "--appendfsync", "always")
	underFault(t, s, s.Settings(), 200, func(done <-chan struct{}) {
		for range 3 {
			select {
			case <-time.After(500 * time.Millisecond):
				s.Kill()
				time.Sleep(100 * time.Millisecond)
				s.Run(t)
			case <-done:
				return
			}
		}
	})
}

// Valkey stands still for longer than a lease and than a connection's patience.
func TestFreeze(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t)
	underFault(t, s, s.Settings(), 100, func(<-chan struct{}) {
		time.Sleep(300 * time.Millisecond)
		s.Signal(t, syscall.SIGSTOP)
		time.Sleep(8 * time.Second)
		s.Signal(t, syscall.SIGCONT)
	})
}

// Connections are cut at any byte, so that commands are done whose answers are lost.
func TestCut(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t)
	p := proxy(t, s.Socket)
	underFault(t, s, conn.Settings{Addresses: []string{p.address}}, 200, func(done <-chan struct{}) {
		for i := 0; ; i++ {
			select {
			// Ever less often: a slow machine has to get through between two cuts.
			case <-time.After(time.Duration(100+10*i) * time.Millisecond):
				p.cut()
			case <-done:
				if i < 5 {
					t.Errorf("the connections were cut %d times only", i)
				}
				return
			}
		}
	})
}

type cutter struct {
	address string
	// lose is what the next reply to be lost holds, with its connection; nil loses none.
	lose  atomic.Pointer[[]byte]
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// proxy forwards to a socket, and cuts all its connections when asked.
func proxy(t testing.TB, socket string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &cutter{address: l.Addr().String(), conns: map[net.Conn]bool{}}
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("unix", socket)
			if err != nil {
				a.Close()
				continue
			}
			p.mu.Lock()
			p.conns[a], p.conns[b] = true, true
			p.mu.Unlock()
			go func() { _, _ = io.Copy(replies{a, p}, b); a.Close(); b.Close() }()
			go func() { _, _ = io.Copy(b, a); a.Close(); b.Close() }()
		}
	}()
	return p
}

// replies are those to one client.
type replies struct {
	io.Writer
	p *cutter
}

func (r replies) Write(b []byte) (int, error) {
	if mark := r.p.lose.Load(); mark != nil && bytes.Contains(b, *mark) && r.p.lose.CompareAndSwap(mark, nil) {
		return 0, errors.New("the reply is lost")
	}
	return r.Writer.Write(b)
}

func (p *cutter) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// With a full memory a result waits, its job stays unacknowledged, and nothing half
// done is left.
func TestMemoryFull(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t, "--maxmemory-policy", "noeviction")
	q := open(t, s, short)
	w := worker(t, q, "r1")
	first := submit(t, q, queue.Job{ID: "first"})
	second := submit(t, q, queue.Job{ID: "second"})
	c := claim(t, w)
	raw := client(t, s)
	maxMemory(t, raw, "1mb")
	err := c.Finish(within(t, 5*time.Second), queue.Outcome{Payload: []byte("lost")})
	if err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("finish with a full memory: %v", err)
	}
	if _, err := w.Claim(within(t, time.Second), 1); err == nil || errors.Is(err, queue.ErrLost) {
		t.Errorf("claim with a full memory: %v", err)
	}
	st, err := q.Status(t.Context())
	if err != nil || st.Running != 1 || st.WaitingBatch != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
	maxMemory(t, raw, "100mb")
	// The first claim was given up by its runner: its lease lapses, and both end.
	for range 2 {
		c := claim(t, w)
		if err := c.Finish(within(t, patience), queue.Outcome{Payload: []byte(c.ID)}); err != nil {
			t.Error(err)
		}
	}
	for _, ticket := range []*queue.Ticket{first, second} {
		if o := wait(t, ticket); string(o.Payload) != ticket.ID() {
			t.Errorf("%s: %+v", ticket.ID(), o)
		}
	}
}

// maxMemory bounds Valkey: an empty one needs more than 1mb.
func maxMemory(t testing.TB, c valkey.Client, size string) {
	t.Helper()
	if err := c.Do(t.Context(), c.B().Arbitrary("CONFIG", "SET", "maxmemory", size).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// A result that can't be stored yet is stored as soon as there is room, and its
// runner keeps its lease although it can't renew.
func TestMemoryFullForAWhile(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t, "--maxmemory-policy", "noeviction")
	q := open(t, s, short)
	ticket := submit(t, q, queue.Job{ID: "j"})
	c := claim(t, worker(t, q, "r1"))
	raw := client(t, s)
	maxMemory(t, raw, "1mb")
	done := make(chan error, 1)
	go func() { done <- c.Finish(within(t, patience), queue.Outcome{Payload: []byte("kept")}) }()
	time.Sleep(2*shortLease + time.Second)
	select {
	case err := <-done:
		t.Fatalf("finished without room: %v", err)
	default:
	}
	maxMemory(t, raw, "100mb")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if o := wait(t, ticket); string(o.Payload) != "kept" || o.Attempt != 1 {
		t.Errorf("outcome %+v", o)
	}
}
