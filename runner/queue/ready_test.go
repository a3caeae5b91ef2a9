package queue_test

import (
	"testing"
	"time"

	"github.com/quavon/quavon/runner/queue"
)

// TestReady gives jobs only to a runner whose test has passed, not too long ago and not in
// a time that hasn't come.
func TestReady(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		edit func(*queue.Health)
		want bool
	}{
		"as it should be":      {func(*queue.Health) {}, true},
		"tested long ago":      {func(h *queue.Health) { h.Smoke.At = now.Add(-queue.SmokeMaxAge) }, false},
		"a clock a bit ahead":  {func(h *queue.Health) { h.Smoke.At = now.Add(queue.ClockSkew) }, true},
		"tested in the future": {func(h *queue.Health) { h.Smoke.At = now.Add(queue.ClockSkew + time.Second) }, false},
		"tested in a century":  {func(h *queue.Health) { h.Smoke.At = now.AddDate(100, 0, 0) }, false},
		"tested at the end":    {func(h *queue.Health) { h.Smoke.At = time.Unix(1<<60, 0) }, false},
		"tested at no time":    {func(h *queue.Health) { h.Smoke.At = time.Time{} }, false},
		"not passed":           {func(h *queue.Health) { h.Smoke.Passed = false }, false},
		"not tested":           {func(h *queue.Health) { h.Smoke = nil }, false},
		"unknown":              {func(h *queue.Health) { h.State = queue.StateUnknown }, false},
		"draining":             {func(h *queue.Health) { h.State = queue.StateDraining }, false},
		"another class":        {func(h *queue.Health) { h.Classes = []string{"b"} }, false},
	} {
		h := queue.Health{State: queue.StateHealthy, Classes: []string{"a"}, Smoke: &queue.Smoke{Passed: true, At: now.Add(-time.Hour)}}
		c.edit(&h)
		if h.Ready("a", now) != c.want {
			t.Errorf("%s: ready is %t", name, !c.want)
		}
	}
}
