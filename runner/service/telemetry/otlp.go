package telemetry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// The forms below are OTLP's, as far as they are used here. Numbers of 64 bits are
// texts in its JSON, and ids are hexadecimal.

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	Text *string `json:"stringValue,omitempty"`
	Int  *string `json:"intValue,omitempty"`
}

func text(key, v string) attribute { return attribute{key, value{Text: &v}} }

func number(key string, n int64) attribute {
	s := strconv.FormatInt(n, 10)
	return attribute{key, value{Int: &s}}
}

type span struct {
	Trace      string      `json:"traceId"`
	ID         string      `json:"spanId"`
	Parent     string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes,omitempty"`
	Status     status      `json:"status"`
}

type status struct {
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Codes of OTLP.
const (
	kindInternal = 1
	kindConsumer = 5
	statusError  = 2
	cumulative   = 2
)

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// traceOf is a job's trace: the same for all its attempts, on whatever runner.
func traceOf(job string) string {
	sum := sha256.Sum256([]byte(job))
	return hex.EncodeToString(sum[:16])
}

func newSpanID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scope struct {
	Name string `json:"name"`
}

const scopeName = "github.com/quavon/quavon/runner/service"

func tracesDoc(r []attribute, spans []span) any {
	type scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	type resourceSpans struct {
		Resource resource     `json:"resource"`
		Scopes   []scopeSpans `json:"scopeSpans"`
	}
	return map[string]any{"resourceSpans": []resourceSpans{{resource{r}, []scopeSpans{{scope{scopeName}, spans}}}}}
}

type point struct {
	Attributes []attribute `json:"attributes"`
	Start      string      `json:"startTimeUnixNano"`
	Time       string      `json:"timeUnixNano"`
	Int        string      `json:"asInt,omitempty"`
	Count      string      `json:"count,omitempty"`
	Sum        float64     `json:"sum,omitempty"`
	Buckets    []string    `json:"bucketCounts,omitempty"`
	Bounds     []float64   `json:"explicitBounds,omitempty"`
}

type points struct {
	Points      []point `json:"dataPoints"`
	Temporality int     `json:"aggregationTemporality"`
	Monotonic   bool    `json:"isMonotonic,omitempty"`
}

type metric struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Sum       *points `json:"sum,omitempty"`
	Histogram *points `json:"histogram,omitempty"`
}

func metricsDoc(r []attribute, metrics []metric) any {
	type scopeMetrics struct {
		Scope   scope    `json:"scope"`
		Metrics []metric `json:"metrics"`
	}
	type resourceMetrics struct {
		Resource resource       `json:"resource"`
		Scopes   []scopeMetrics `json:"scopeMetrics"`
	}
	return map[string]any{"resourceMetrics": []resourceMetrics{{resource{r}, []scopeMetrics{{scope{scopeName}, metrics}}}}}
}
