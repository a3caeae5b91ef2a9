package agent_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/sandbox"
)

// BenchmarkPing is a round trip to the agent; the metric is the median.
func BenchmarkPing(b *testing.B) {
	box := startBox(b)
	var took []time.Duration
	for b.Loop() {
		for range 20 {
			start := time.Now()
			must(b, box.Ping(b.Context()))
			took = append(took, time.Since(start))
		}
	}
	b.ReportMetric(float64(median(took).Microseconds()), "ping-µs")
}

// BenchmarkExec starts /bin/true through the agent. The metric "of-C" is the
// median time against a vfork and exec loop in C in the same sandbox, measured in
// turn.
func BenchmarkExec(b *testing.B) {
	box := startBox(b)
	program, loop := command(""), command("")
	program.Argv = []string{"/bin/true"}
	const rounds = 20
	loop.Argv = []string{"/test/spawn", strconv.Itoa(rounds), "/bin/true"}
	var ours, theirs []time.Duration
	for b.Loop() {
		out := run(b, box.Client, loop, nil)
		theirs = append(theirs, time.Duration(atoi(b, strings.TrimSpace(out.stdout))))
		start := time.Now()
		for range rounds {
			if e := run(b, box.Client, program, nil); e.Code != 0 {
				b.Fatalf("%+v", e)
			}
		}
		ours = append(ours, time.Since(start)/rounds)
	}
	b.ReportMetric(float64(median(ours).Microseconds()), "agent-µs")
	b.ReportMetric(float64(median(theirs).Microseconds()), "C-µs")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "of-C")
}

const mib = 1 << 20

// rawStdout is the speed of the runtime's own stdout, in bytes per second, with
// a host pipe as large as the agent's.
func rawStdout(b *testing.B, n int) float64 {
	b.Helper()
	raw := bareRuntime(b, "/test/burst", strconv.Itoa(n))
	stdin, stdout := pipes(b, raw)
	conn, err := wire.NewFiles(stdout, stdin)
	must(b, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	must(b, err)
	start := time.Now()
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 512<<10))
	must(b, err)
	if got != int64(n)*mib-1 {
		b.Fatalf("%d bytes", got)
	}
	return float64(got) / time.Since(start).Seconds()
}

// mover moves so many MiB.
type mover func(tb testing.TB, box *box, n int)

// BenchmarkThroughput moves bytes each way and compares with the runtime's own
// stdout, written by the same program, in the same round. The metrics are
// medians.
func BenchmarkThroughput(b *testing.B) {
	const size = 256
	box := startBox(b)
	speeds, shares := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		raw := rawStdout(b, size)
		speeds["raw"] = append(speeds["raw"], raw/mib)
		for name, move := range map[string]mover{"stdout": burst, "put": putFile, "get": getFile} {
			if name == "get" {
				putFile(b, box, size)
			}
			start := time.Now()
			move(b, box, size)
			speed := size * mib / time.Since(start).Seconds()
			speeds[name] = append(speeds[name], speed/mib)
			shares[name] = append(shares[name], speed/raw)
		}
	}
	for name, s := range speeds {
		b.ReportMetric(median(s), name+"-MiB/s")
	}
	for name, s := range shares {
		b.ReportMetric(median(s), name+"-of-raw")
	}
}

func median[T cmp.Ordered](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

// discard is io.Discard without its ReadFrom, which would skip our write path.
type discard struct{ n int64 }

func (d *discard) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	return len(p), nil
}

func burst(tb testing.TB, box *box, n int) {
	tb.Helper()
	c := command("")
	c.Argv = []string{"/test/burst", strconv.Itoa(n)}
	out := &discard{}
	p, err := box.Exec(tb.Context(), c, agent.Stdio{Stdout: out})
	must(tb, err)
	exit, err := p.Wait()
	must(tb, err)
	if exit.Code != 0 || out.n != int64(n)*mib {
		tb.Fatalf("%+v after %d bytes", exit, out.n)
	}
}

// zeros reads as zero bytes for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func putFile(tb testing.TB, box *box, n int) {
	tb.Helper()
	var head bytes.Buffer
	size := int64(n) * mib
	must(tb, tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "big", Size: size, Mode: 0o644}))
	content := io.LimitReader(zeros{}, size+1024) // and the archive's end
	must(tb, box.Put(tb.Context(), "/tmp", sandbox.JobUID, sandbox.JobUID, io.MultiReader(&head, content)))
}

func getFile(tb testing.TB, box *box, n int) {
	tb.Helper()
	out := &discard{}
	must(tb, box.Get(tb.Context(), agent.GetRequest{Dir: "/tmp", Globs: []string{"big"}, MaxBytes: 1 << 40, MaxEntries: 10}, out))
	if out.n < int64(n)*mib {
		tb.Fatalf("%d bytes", out.n)
	}
}
