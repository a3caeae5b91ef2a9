package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/quavon/quavon/runner/service"
)

// track is an attempt on its way.
type track struct{ claimed, running, storing time.Time }

// ended makes spans and counts of an attempt that has ended.
func (e *Exporter) ended(t *track, ev service.Event) {
	reason := "none"
	root := span{
		Trace: traceOf(ev.Job), ID: newSpanID(), Name: "job", Kind: kindConsumer, Start: nanos(t.claimed), End: nanos(ev.At),
		Attributes: []attribute{
			text("quavon.job.id", ev.Job), number("quavon.job.attempt", int64(ev.Attempt)), text("quavon.job.end", string(ev.Stage)),
		},
	}
	if r := ev.Result; r != nil {
		reason = cmp.Or(string(r.Reason), reason)
		root.Attributes = append(root.Attributes, text("quavon.job.reason", reason), number("quavon.job.exit", int64(r.Exit)),
			text("quavon.backend", r.Sandbox.Backend))
	}
	if ev.Stage != service.Stored {
		reason = string(ev.Stage)
	}
	if reason != "none" {
		root.Status = status{statusError, reason}
	}
	e.add(root)
	child := func(name string, from, to time.Time) {
		if from.IsZero() || to.IsZero() {
			return
		}
		e.add(span{Trace: root.Trace, ID: newSpanID(), Parent: root.ID, Name: name, Kind: kindInternal, Start: nanos(from), End: nanos(to)})
		e.meter("quavon.job.phase.duration", "phase", name).observe(to.Sub(from))
	}
	child("fetch", t.claimed, t.running)
	if r := ev.Result; r != nil && !t.running.IsZero() {
		at := t.running
		for _, p := range r.Phases {
			child(p.Name, at, at.Add(p.Took))
			at = at.Add(p.Took)
		}
	}
	child("store", t.storing, ev.At)
	e.meter("quavon.job.duration", "reason", reason).observe(ev.At.Sub(t.claimed))
	e.meter("quavon.jobs", "end", string(ev.Stage)).n++
}

func (e *Exporter) add(s span) {
	if len(e.spans) >= maxSpans {
		e.dropped++
		return
	}
	e.spans = append(e.spans, s)
}

// bounds of histograms, in seconds.
var bounds = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// meter is a counter, and a histogram once it has observed something. It has one
// attribute, of few values.
type meter struct {
	name, key, value string
	n                int64
	sum              float64
	buckets          []int64
}

func (e *Exporter) meter(name, key, value string) *meter {
	id := name + "\x00" + value
	if e.meters[id] == nil {
		e.meters[id] = &meter{name: name, key: key, value: value}
	}
	return e.meters[id]
}

func (m *meter) observe(d time.Duration) {
	if m.buckets == nil {
		m.buckets = make([]int64, len(bounds)+1)
	}
	i, _ := slices.BinarySearch(bounds, d.Seconds())
	m.buckets[i]++
	m.n++
	m.sum += d.Seconds()
}

func (m *meter) metric(start, now time.Time) metric {
	p := point{Attributes: []attribute{text(m.key, m.value)}, Start: nanos(start), Time: nanos(now)}
	if m.buckets == nil {
		p.Int = strconv.FormatInt(m.n, 10)
		return metric{Name: m.name, Unit: "{job}", Sum: &points{[]point{p}, cumulative, true}}
	}
	p.Count, p.Sum, p.Bounds = strconv.FormatInt(m.n, 10), m.sum, bounds
	for _, n := range m.buckets {
		p.Buckets = append(p.Buckets, strconv.FormatInt(n, 10))
	}
	return metric{Name: m.name, Unit: "s", Histogram: &points{Points: []point{p}, Temporality: cumulative}}
}

// join adds the points of a metric of the same name.
func (m *metric) join(o metric) {
	if m.Sum != nil {
		m.Sum.Points = append(m.Sum.Points, o.Sum.Points...)
		return
	}
	m.Histogram.Points = append(m.Histogram.Points, o.Histogram.Points...)
}

func (e *Exporter) pushSpans(ctx context.Context) {
	e.mu.Lock()
	spans, dropped := e.spans, e.dropped
	e.spans, e.dropped = nil, 0
	e.mu.Unlock()
	if dropped > 0 {
		e.log.Warn("spans were dropped: there were too many", "count", dropped)
	}
	if len(spans) > 0 {
		e.push(ctx, e.traces, tracesDoc(e.resource, spans))
	}
}

func (e *Exporter) pushMeters(ctx context.Context) {
	now := time.Now()
	e.mu.Lock()
	var all []metric
	for _, id := range slices.Sorted(maps.Keys(e.meters)) {
		m := e.meters[id].metric(e.started, now)
		if last := len(all) - 1; last >= 0 && all[last].Name == m.Name {
			all[last].join(m)
			continue
		}
		all = append(all, m)
	}
	e.mu.Unlock()
	if len(all) > 0 {
		e.push(ctx, e.metrics, metricsDoc(e.resource, all))
	}
}
