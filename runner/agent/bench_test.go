package agent_test

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/sandbox"
)

// BenchmarkPing is a round trip to the agent.
func BenchmarkPing(b *testing.B) {
	box := startBox(b)
	for b.Loop() {
		must(b, box.Ping(context.Background()))
	}
}

// BenchmarkExec starts /bin/true through the agent. The metric "of-C" is the time
// against a vfork and exec loop in C in the same sandbox.
func BenchmarkExec(b *testing.B) {
	box := startBox(b)
	program := command("")
	program.Argv = []string{"/bin/true"}
	const rounds = 40
	var ours, theirs time.Duration
	n := 0
	for b.Loop() {
		// In turn, so that both see the same machine.
		c := command("")
		c.Argv = []string{"/test/spawn", strconv.Itoa(rounds), "/bin/true"}
		out := run(b, box.Client, c, nil)
		ns, err := strconv.Atoi(strings.TrimSpace(out.stdout))
		must(b, err)
		theirs += time.Duration(ns) * rounds
		start := time.Now()
		for range rounds {
			if e := run(b, box.Client, program, nil); e.Code != 0 {
				b.Fatalf("%+v", e)
			}
		}
		ours += time.Since(start)
		n += rounds
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "agent-µs")
	b.ReportMetric(float64(theirs.Microseconds())/float64(n), "C-µs")
	b.ReportMetric(float64(ours)/float64(theirs), "of-C")
}

const mib = 1 << 20

// rawStdout is the speed of the runtime's own stdout, in bytes per second.
func rawStdout(b *testing.B, n int) float64 {
	b.Helper()
	raw := bareRuntime(b, "/test/burst", strconv.Itoa(n))
	_, stdout := pipes(b, raw)
	first := make([]byte, 1)
	_, err := io.ReadFull(stdout, first)
	must(b, err)
	start := time.Now()
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{stdout}, make([]byte, 256<<10))
	must(b, err)
	if got != int64(n)*mib-1 {
		b.Fatalf("%d bytes", got)
	}
	return float64(got) / time.Since(start).Seconds()
}

// BenchmarkThroughput moves bytes each way. The metrics "of-raw" compare with the
// runtime's own stdout, written by the same program.
func BenchmarkThroughput(b *testing.B) {
	const size = 400
	for b.Loop() {
		raw := rawStdout(b, size)
		box := startBox(b)
		rate := func(name string, f func()) {
			start := time.Now()
			f()
			r := size * mib / time.Since(start).Seconds()
			b.ReportMetric(r/mib, name+"-MiB/s")
			b.ReportMetric(r/raw, name+"-of-raw")
		}
		b.ReportMetric(raw/mib, "raw-MiB/s")
		rate("stdout", func() { burst(b, box, size) })
		rate("put", func() { putFile(b, box, size) })
		rate("get", func() { getFile(b, box, size) })
	}
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
	p, err := box.Exec(context.Background(), c, agent.Stdio{Stdout: out})
	must(tb, err)
	exit, err := p.Wait()
	must(tb, err)
	if exit.Code != 0 || out.n != int64(n)*mib {
		tb.Fatalf("%+v after %d bytes", exit, out.n)
	}
}

func putFile(tb testing.TB, box *box, n int) {
	tb.Helper()
	r, w, err := os.Pipe()
	must(tb, err)
	defer r.Close()
	go func() {
		defer w.Close()
		tw := tar.NewWriter(w)
		_ = tw.WriteHeader(&tar.Header{Name: "big", Size: int64(n) * mib, Mode: 0o644, Format: tar.FormatPAX})
		for buf := make([]byte, mib); n > 0; n-- {
			_, _ = tw.Write(buf)
		}
		_ = tw.Close()
	}()
	must(tb, box.Put(context.Background(), "/tmp", sandbox.JobUID, sandbox.JobUID, r))
}

func getFile(tb testing.TB, box *box, n int) {
	tb.Helper()
	out := &discard{}
	must(tb, box.Get(context.Background(), agent.GetRequest{Dir: "/tmp", Globs: []string{"big"}, MaxBytes: 1 << 40, MaxEntries: 10}, out))
	if out.n < int64(n)*mib {
		tb.Fatalf("%d bytes", out.n)
	}
}
