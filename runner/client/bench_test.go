package client_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/service/servicetest"
)

// BenchmarkFirstByte is the time from submitting a job to its first byte of output,
// and the same start without a queue, in turn. It fails when the queue costs more than
// is promised.
func BenchmarkFirstByte(b *testing.B) {
	q := servicetest.NewQueue(b).Open(b)
	o := servicetest.Options(b, q)
	servicetest.StartHealthy(b, o)
	c := client.New(q)
	dir := b.TempDir()
	argv := []string{"/bin/echo", "first"}
	var queued, direct []time.Duration
	for b.Loop() {
		queued = append(queued, firstByte(func(w writer) error {
			_, err := c.Run(b.Context(), client.Job{Dir: dir, Steps: []client.Step{{Run: argv}}}, client.Log{Stdout: w})
			return err
		}, b))
		direct = append(direct, firstByte(func(w writer) error {
			_, err := o.Runner.Run(b.Context(), job.Spec{
				ID: "direct", Root: job.Root{Kind: job.RootHost}, Steps: []job.Step{{Argv: argv}},
				Mounts: []job.Mount{{Source: dir, Target: job.WorkspaceDir, Mode: job.MountOverlay}}, Limits: job.Limits{Wall: time.Hour},
			}, runner.Streams{Stdout: w})
			return err
		}, b))
	}
	more := median(queued) - median(direct)
	b.ReportMetric(ms(median(queued)), "ms/queued")
	b.ReportMetric(ms(median(direct)), "ms/direct")
	b.ReportMetric(ms(more), "ms/more")
	b.ReportMetric(0, "ns/op")
	if promise := 15 * time.Millisecond; more > promise && b.N > 5 {
		b.Errorf("the queue costs %v, more than %v", more, promise)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// firstByte runs a job and tells when its first byte came.
func firstByte(run func(writer) error, b *testing.B) time.Duration {
	start := time.Now()
	var first time.Duration
	err := run(func(p []byte) (int, error) {
		if first == 0 && strings.HasPrefix(string(p), "f") {
			first = time.Since(start)
		}
		return len(p), nil
	})
	if err != nil || first == 0 {
		b.Fatalf("no output: %v", err)
	}
	return first
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
