package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/service"
)

// collector keeps what it is sent.
type collector struct {
	mu   sync.Mutex
	docs map[string][]json.RawMessage
	auth string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.docs[r.URL.Path] = append(c.docs[r.URL.Path], body)
	c.auth = r.Header.Get("Authorization")
	w.WriteHeader(http.StatusOK)
}

func exporter(t *testing.T, vars map[string]string) *Exporter {
	t.Helper()
	e, err := New(t.Context(), func(k string) string { return vars[k] }, "v1", slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSpansAndMetrics(t *testing.T) {
	t.Parallel()
	c := &collector{docs: map[string][]json.RawMessage{}}
	server := httptest.NewServer(c)
	defer server.Close()
	e := exporter(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x", "OTEL_SERVICE_NAME": "mine",
	})
	at := time.Unix(1000, 0)
	result := &job.Result{Exit: 3, Phases: []job.Phase{{Name: "start", Took: time.Second}, {Name: "steps", Took: 2 * time.Second}}}
	for _, ev := range []service.Event{
		{Stage: service.Claimed, Job: "a", Attempt: 2, At: at},
		{Stage: service.Running, Job: "a", Attempt: 2, At: at.Add(time.Second)},
		{Stage: service.Storing, Job: "a", Attempt: 2, At: at.Add(5 * time.Second), Result: result},
		{Stage: service.Stored, Job: "a", Attempt: 2, At: at.Add(6 * time.Second), Result: result},
		{Stage: service.Claimed, Job: "b", Attempt: 1, At: at},
		{Stage: service.Lost, Job: "b", Attempt: 1, At: at.Add(time.Second), Result: &job.Result{}},
	} {
		e.Observe(t.Context(), ev)
	}
	e.Close(t.Context())
	if c.auth != "Bearer x" || len(e.jobs) != 0 {
		t.Errorf("header %q, %d jobs kept", c.auth, len(e.jobs))
	}
	var traces struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []span }
		}
	}
	if err := json.Unmarshal(c.docs["/v1/traces"][0], &traces); err != nil {
		t.Fatal(err)
	}
	var names []string
	spans := traces.ResourceSpans[0].ScopeSpans[0].Spans
	for _, s := range spans {
		names = append(names, s.Name)
		if len(s.Trace) != 32 || len(s.ID) != 16 {
			t.Errorf("ids of %+v", s)
		}
	}
	if !slices.Equal(names, []string{"job", "fetch", "start", "steps", "store", "job"}) || spans[3].Parent != spans[0].ID ||
		spans[3].Start != nanos(at.Add(2*time.Second)) || spans[3].End != nanos(at.Add(4*time.Second)) || spans[5].Status.Code != statusError {
		t.Errorf("spans %+v", spans)
	}
	metrics := string(c.docs["/v1/metrics"][0])
	for _, want := range []string{`"quavon.jobs"`, `"stringValue":"stored"`, `"stringValue":"lost"`, `"count":"1"`, `"sum":6`, `"stringValue":"mine"`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in %s", want, metrics)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string]map[string]string{
		"nothing": {}, "disabled": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_SDK_DISABLED": "true"},
		"none": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
	} {
		if e := exporter(t, vars); e != nil {
			t.Errorf("%s: there is an exporter", name)
		}
	}
	for name, vars := range map[string]map[string]string{
		"grpc":   {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"no URL": {"OTEL_EXPORTER_OTLP_ENDPOINT": "a:4318"},
	} {
		if _, err := New(t.Context(), func(k string) string { return vars[k] }, "", slog.Default()); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestCollectorAway: jobs don't wait for a collector, and memory is bounded.
func TestCollectorAway(t *testing.T) {
	t.Parallel()
	e := exporter(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
	for range 2 * maxSpans {
		e.Observe(context.Background(), service.Event{Stage: service.Claimed, Job: "a"})
		e.Observe(context.Background(), service.Event{Stage: service.Lost, Job: "a"})
	}
	if len(e.spans) != maxSpans || e.dropped != maxSpans {
		t.Errorf("%d spans wait, %d dropped", len(e.spans), e.dropped)
	}
	e.Close(t.Context())
}
