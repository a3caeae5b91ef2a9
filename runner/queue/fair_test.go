package queue_test

import (
	"fmt"
	"testing"

	"github.com/quavon/quavon/runner/queue"
)

// drain claims and finishes jobs one by one, and returns their ids in order.
func drain(t testing.TB, w *queue.Worker, n int) (ids []string) {
	t.Helper()
	for range n {
		c := claim(t, w)
		ids = append(ids, c.ID)
		if err := c.Finish(within(t, patience), queue.Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func TestFairness(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	for i := range 200 {
		submit(t, q, queue.Job{ID: fmt.Sprintf("burst-%d", i), Tenant: "burst"}).Close()
	}
	for i := range 3 {
		submit(t, q, queue.Job{ID: fmt.Sprintf("b-%d", i), Tenant: "b"}).Close()
		submit(t, q, queue.Job{ID: fmt.Sprintf("c-%d", i), Tenant: "c", Class: "image"}).Close()
	}
	ids := drain(t, worker(t, q, "r1", "host", "image"), 206)
	small := 0
	for _, id := range ids[:10] {
		if id[1] == '-' {
			small++
		}
	}
	if small != 6 {
		t.Errorf("of 6 jobs of small tenants %d were among the first 10: %v", small, ids[:10])
	}
	for i, id := range ids[10:] {
		if want := fmt.Sprintf("burst-%d", i+4); id != want {
			t.Fatalf("%d: %s, want %s: a tenant's own jobs keep their order", i+10, id, want)
		}
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	for i := range 3 {
		submit(t, q, queue.Job{ID: fmt.Sprintf("batch-%d", i)}).Close()
	}
	for i := range 3 {
		submit(t, q, queue.Job{ID: fmt.Sprintf("now-%d", i), Priority: queue.Interactive}).Close()
	}
	st, err := q.Status(t.Context())
	if err != nil || st.WaitingBatch != 3 || st.WaitingInteractive != 3 || st.Running != 0 {
		t.Errorf("status %+v, %v", st, err)
	}
	ids := fmt.Sprint(drain(t, worker(t, q, "r1"), 6))
	if want := "[now-0 now-1 now-2 batch-0 batch-1 batch-2]"; ids != want {
		t.Errorf("order %s, want %s", ids, want)
	}
}

// A runner takes only what it offers, and what it doesn't offer holds up nobody.
func TestClasses(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	for i := range 50 {
		submit(t, q, queue.Job{ID: fmt.Sprintf("other-%d", i), Class: "sha256:0"}).Close()
	}
	submit(t, q, queue.Job{ID: "mine"}).Close()
	if got := drain(t, worker(t, q, "r1"), 1); got[0] != "mine" {
		t.Errorf("claimed %v", got)
	}
}
