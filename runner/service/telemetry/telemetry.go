// Package telemetry pushes what a runner does to an OpenTelemetry collector: a span
// per job and phase, counters and histograms, as OTLP over HTTP in JSON. It speaks
// only when the environment's OTEL_EXPORTER_OTLP_… name a collector. The protocol's
// JSON form is written by hand: the SDK and its exporters would double what this
// program takes to start.
package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/service"
)

// Exporter gathers and pushes. It is safe for concurrent use.
type Exporter struct {
	traces, metrics string
	headers         http.Header
	resource        []attribute
	timeout         time.Duration
	client          *http.Client
	log             *slog.Logger
	started         time.Time
	stop            context.CancelCauseFunc
	done            sync.WaitGroup

	mu      sync.Mutex
	jobs    map[string]*track
	spans   []span
	dropped int64
	meters  map[string]*meter
}

// Bounds of what waits to be pushed, and when it is.
const (
	maxSpans      = 4096
	pushEvery     = 5 * time.Second
	metricsEvery  = time.Minute
	farewellTime  = 5 * time.Second
	pushTimeout   = 10 * time.Second
	defaultOrigin = "quavon-runner"
)

// New starts an exporter as the environment says; nil when it names no collector.
func New(ctx context.Context, env func(string) string, version string, log *slog.Logger) (*Exporter, error) {
	base := strings.TrimSuffix(env("OTEL_EXPORTER_OTLP_ENDPOINT"), "/")
	e := &Exporter{
		traces:  endpoint(env, "TRACES", base, "/v1/traces"),
		metrics: endpoint(env, "METRICS", base, "/v1/metrics"),
		timeout: pushTimeout, client: &http.Client{}, log: log, started: time.Now(),
		jobs: map[string]*track{}, meters: map[string]*meter{},
	}
	if e.traces == "" && e.metrics == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	if err := e.configure(env, version); err != nil {
		return nil, err
	}
	ctx, e.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	interval := metricsEvery
	if n, err := strconv.Atoi(env("OTEL_METRIC_EXPORT_INTERVAL")); err == nil && n > 0 {
		interval = time.Duration(n) * time.Millisecond
	}
	e.done.Go(func() { e.loop(ctx, interval) })
	return e, nil
}

// endpoint is where a signal goes, "" when it goes nowhere.
func endpoint(env func(string) string, signal, base, path string) string {
	if env("OTEL_"+signal+"_EXPORTER") == "none" {
		return ""
	}
	if own := env("OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"); own != "" {
		return own
	}
	if base == "" {
		return ""
	}
	return base + path
}

func (e *Exporter) configure(env func(string) string, version string) error {
	if p := env("OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && !strings.HasPrefix(p, "http/") {
		return fault.New(fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL %.20q is not spoken here", p),
			"set it to http/json, and name the collector's HTTP port, usually 4318")
	}
	for _, to := range []string{e.traces, e.metrics} {
		if u, err := url.Parse(to); to != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return fault.New("the OTLP endpoint is no URL", "write http://HOST:4318 into OTEL_EXPORTER_OTLP_ENDPOINT")
		}
	}
	e.headers = http.Header{"Content-Type": {"application/json"}}
	for k, v := range pairs(env("OTEL_EXPORTER_OTLP_HEADERS")) {
		e.headers.Set(k, v)
	}
	if n, err := strconv.Atoi(env("OTEL_EXPORTER_OTLP_TIMEOUT")); err == nil && n > 0 {
		e.timeout = time.Duration(n) * time.Millisecond
	}
	e.resource = []attribute{text("service.name", cmp.Or(env("OTEL_SERVICE_NAME"), defaultOrigin)), text("service.version", version)}
	for k, v := range pairs(env("OTEL_RESOURCE_ATTRIBUTES")) {
		e.resource = append(e.resource, text(k, v))
	}
	return nil
}

// pairs reads k=v,k=v with escaped values.
func pairs(list string) map[string]string {
	m := map[string]string{}
	for _, kv := range strings.Split(list, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(kv), "=")
		if v, err := url.PathUnescape(v); ok && k != "" && err == nil {
			m[k] = v
		}
	}
	return m
}

// Observe notes a job's way; it is for service.Options.
func (e *Exporter) Observe(_ context.Context, ev service.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := ev.Job + "." + strconv.FormatUint(uint64(ev.Attempt), 10)
	if ev.Stage == service.Claimed {
		e.jobs[key] = &track{claimed: ev.At}
		return
	}
	t := e.jobs[key]
	if t == nil {
		return
	}
	switch ev.Stage {
	case service.Running:
		t.running = ev.At
	case service.Storing:
		t.storing = ev.At
	default:
		delete(e.jobs, key)
		e.ended(t, ev)
	}
}

var errClosed = errors.New("the exporter was closed")

// Close pushes what is left.
func (e *Exporter) Close(ctx context.Context) {
	e.stop(errClosed)
	e.done.Wait()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), farewellTime, errClosed)
	defer cancel()
	e.pushSpans(ctx)
	e.pushMeters(ctx)
}

func (e *Exporter) loop(ctx context.Context, interval time.Duration) {
	spans, meters := time.NewTicker(pushEvery), time.NewTicker(interval)
	defer spans.Stop()
	defer meters.Stop()
	for {
		select {
		case <-spans.C:
			e.pushSpans(ctx)
		case <-meters.C:
			e.pushMeters(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// push sends a document. What isn't taken is lost: a collector's troubles are no
// reason to hold up jobs or fill memory.
func (e *Exporter) push(ctx context.Context, to string, doc any) {
	if to == "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errors.New("the collector does not answer"))
	defer cancel()
	if err := e.post(ctx, to, doc); err != nil {
		e.log.Warn("telemetry was lost", "error", err)
	}
}

func (e *Exporter) post(ctx context.Context, to string, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the OTLP endpoint is no URL") // the URL may hold a password
	}
	req.Header = e.headers.Clone()
	resp, err := e.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector said %s", resp.Status)
	}
	return nil
}
