package queue_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

var shared struct {
	sync.Once
	s *queuetest.Server
}

// keys is one keyring for all tests.
var keys = func() *envelope.Keyring {
	secret := make([]byte, envelope.KeySize)
	_, _ = rand.Read(secret)
	k, err := envelope.NewKeyring(secret)
	if err != nil {
		panic(err)
	}
	return k
}()

// names are those of queues, by the names of the tests that run.
var names sync.Map

// name is of the queue of a test, another one in each run of it.
func name(t testing.TB) string {
	fresh := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()+"-"+rand.Text()[:6])), "-")
	n, had := names.LoadOrStore(t.Name(), fresh)
	if !had {
		t.Cleanup(func() { names.Delete(t.Name()) })
	}
	return n.(string)
}

func open(t testing.TB, s *queuetest.Server, edit func(*queue.Options)) *queue.Queue {
	t.Helper()
	o := queue.Options{Conn: s.Settings(), Keys: keys, Name: name(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if edit != nil {
		edit(&o)
	}
	q, err := queue.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func worker(t testing.TB, q *queue.Queue, id string, classes ...string) *queue.Worker {
	t.Helper()
	if len(classes) == 0 {
		classes = []string{"host"}
	}
	w, err := q.Worker(t.Context(), id, classes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// patience is for what comes soon, on a machine that isn't busy.
const patience = time.Minute

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// claim claims one job.
func claim(t testing.TB, w *queue.Worker) *queue.Claim {
	t.Helper()
	got, err := w.Claim(within(t, patience), 1)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// claimNothing has a worker claim until wait returns, and expects that it gets no job.
func claimNothing(t *testing.T, w *queue.Worker, wait func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan []*queue.Claim, 1)
	go func() {
		claims, _ := w.Claim(ctx, 1) // it fails when it is cancelled
		ended <- claims
	}()
	wait()
	cancel()
	for _, c := range <-ended {
		t.Errorf("%s was given out, attempt %d: %q", c.ID, c.Attempt, c.Payload)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := server(t)
	q := open(t, s, nil)
	ctx := within(t, patience)
	w := worker(t, open(t, s, nil), "r1")
	files := make([]byte, 3<<20+77)
	_, _ = rand.Read(files)
	ticket, err := q.Submit(ctx, queue.Job{ID: "j1", Tenant: "a", Class: "host", Payload: []byte("run this")}, bytes.NewReader(files))
	if err != nil {
		t.Fatal(err)
	}
	c := claim(t, w)
	if c.ID != "j1" || string(c.Payload) != "run this" || c.Attempt != 1 {
		t.Errorf("claimed %q %q, attempt %d", c.ID, c.Payload, c.Attempt)
	}
	r, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, files) {
		t.Fatalf("snapshot: %d bytes, %v", len(got), err)
	}
	out := c.Output(ctx)
	var log bytes.Buffer
	type result struct {
		o   queue.Outcome
		err error
	}
	done := make(chan result, 1)
	first := make(chan struct{})
	go func() {
		once := sync.OnceFunc(func() { close(first) })
		o, err := ticket.Wait(ctx, func(f queue.Frame) error {
			log.Write(f.Data)
			once()
			return nil
		})
		done <- result{o, err}
	}()
	fmt.Fprint(out.Writer(queue.Stdout, 0), "hello ")
	select {
	case <-first: // while the job runs
	case <-ctx.Done():
		t.Fatal("no output while the job runs")
	}
	fmt.Fprint(out.Writer(queue.Stdout, 0), "world")
	patch, err := c.Upload(ctx, "patch", strings.NewReader("diff"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(ctx, queue.Outcome{Payload: []byte(`{"exit":3}`), Files: []queue.File{patch}}); err != nil {
		t.Fatal(err)
	}
	res := <-done
	if res.err != nil {
		t.Fatal(res.err)
	}
	o := res.o
	if log.String() != "hello world" || !o.LogComplete || string(o.Payload) != `{"exit":3}` || o.Reason != "" || o.Runner != "r1" || o.Attempt != 1 {
		t.Errorf("outcome %+v %q, log %q", o, o.Payload, log.String())
	}
	d, err := ticket.Download(ctx, o, o.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(d); err != nil || string(b) != "diff" {
		t.Errorf("file %q, %v", b, err)
	}
	again, err := q.Attach(ctx, "j1")
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	o, err = again.Wait(ctx, func(f queue.Frame) error { log.Write(f.Data); return nil })
	if err != nil || string(o.Payload) != `{"exit":3}` || log.String() != "hello world" {
		t.Errorf("attached later: %+v, log %q, %v", o, log.String(), err)
	}
}
