package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

// After jobs have ended in every way there is, each key that is left will go by itself,
// and what isn't a result is gone already.
func TestEverythingHasATimeToLive(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t)
	q := open(t, s, short)
	ctx := within(t, 3*patience)
	raw := client(t, s)
	audit := func(when string) (keys []string) {
		keys, err := raw.Do(ctx, raw.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if ttl, err := raw.Do(ctx, raw.B().Pttl().Key(k).Build()).AsInt64(); err != nil || ttl == -1 {
				t.Errorf("%s: %s has no time to live (%v)", when, k, err)
			}
			if !strings.HasPrefix(k, queue.Prefix) || !strings.Contains(k, "{") {
				t.Errorf("%s: %s is not a key of ours with a hash tag", when, k)
			}
		}
		return keys
	}
	var tickets []*queue.Ticket
	for i := range 30 {
		ticket, err := q.Submit(ctx, queue.Job{ID: fmt.Sprintf("j%d", i), Tenant: fmt.Sprintf("t%d", i%4), Class: "host", Attempts: 1 + i%2},
			strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	tickets = append(tickets, submit(t, q, queue.Job{ID: "expires", Class: "nobody", StartIn: time.Second}))
	audit("waiting")
	lost := worker(t, q, "lost")
	claims, err := lost.Claim(ctx, 6)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(claims[0].Output(ctx).Writer(queue.Stdout, 0), "x")
	audit("running")
	lost.Close()
	for _, i := range []int{28, 29} {
		if err := tickets[i].Cancel(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w := worker(t, q, "r1")
	if err := w.PublishHealth(ctx, queue.Health{}); err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { work(working, t, w, &sync.Map{}) })
	for _, ticket := range tickets {
		wait(t, ticket)
	}
	stop()
	tasks.Wait()
	counts := map[string]int{}
	for _, k := range audit("ended") {
		rest := k[strings.Index(k, "}:")+2:]
		kind, _, _ := strings.Cut(rest, ":")
		if len(kind) == 32 {
			kind = "chunk"
		}
		counts[kind]++
	}
	// Chunks of jobs that no runner finished stay until their time is over.
	want := map[string]int{"job": 31}
	for _, kind := range []string{"job", "jobs", "wait", "lease"} {
		if counts[kind] != want[kind] {
			t.Errorf("%d keys of %s are left, want %d: %v", counts[kind], kind, want[kind], counts)
		}
	}
}
