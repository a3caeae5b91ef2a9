package queue_test

import (
	"testing"
	"time"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

func TestAPIHost(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t) // the key is one for all queues
	q := open(t, s, nil)
	host := func() *queue.HostRecord {
		t.Helper()
		r, err := q.APIHost(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	publish := func(host, by string) {
		t.Helper()
		if err := q.PublishHost(t.Context(), queue.HostRecord{Host: host, By: by}); err != nil {
			t.Fatal(err)
		}
	}
	if r := host(); r != nil {
		t.Errorf("nobody has published %+v", r)
	}
	publish("a", queue.BySubmit)
	first := host()
	if first == nil || first.Host != "a" || time.Since(first.At) > time.Minute {
		t.Fatalf("%+v", first)
	}
	publish("a", queue.BySubmit)
	if r := host(); !r.At.Equal(first.At) {
		t.Error("the same was published again")
	}
	publish("b", queue.BySubmit)
	publish("c", queue.ByControlPlane)
	publish("d", queue.BySubmit)
	if r := host(); r.Host != "c" || r.By != queue.ByControlPlane {
		t.Errorf("%+v, though a control plane said c", r)
	}
	c := client(t, s)
	if ttl, err := c.Do(t.Context(), c.B().Pttl().Key(queue.HostKey).Build()).AsInt64(); err != nil || ttl <= 0 {
		t.Errorf("it lives for ever: %d, %v", ttl, err)
	}
	stranger := open(t, s, func(o *queue.Options) { o.Keys = otherKeys(t) })
	if _, err := stranger.APIHost(t.Context()); envelope.CauseOf(err) != envelope.WrongKey {
		t.Errorf("a stranger's: %v", err)
	}
	if err := stranger.PublishHost(t.Context(), queue.HostRecord{Host: "e", By: queue.BySubmit}); err != nil {
		t.Errorf("one that isn't genuine stands in the way: %v", err)
	}
}
