package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
)

const mib = 1 << 20

// far is the server behind every name: it echoes, sends zeros or takes what comes.
type far struct{ net.Listener }

func newFar(b *testing.B) far {
	b.Helper()
	return far{listen(b, func(c *net.TCPConn) { serveFar(c) })}
}

// listen serves each connection on a goroutine of its own.
func listen(b *testing.B, serve func(*net.TCPConn)) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	return l
}

func serveFar(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	var n int
	if _, err := fmt.Sscanf(line, "sink %d", &n); err == nil {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(r, int64(n)*mib), make([]byte, 256<<10))
		_, _ = c.Write([]byte{1})
		return
	}
	if _, err := fmt.Sscanf(line, "zeros %d", &n); err != nil {
		_, _ = io.Copy(c, r)
		return
	}
	for zeros := make([]byte, mib); n > 0; n-- {
		if _, err := c.Write(zeros); err != nil {
			return
		}
	}
}

func (far) Lookup(context.Context, policy.Name) ([]netip.Addr, error) {
	return []netip.Addr{goodAddr}, nil
}

func (f far) Dial(ctx context.Context, _ netip.AddrPort, _ func(netip.Addr) error) (proxy.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", f.Addr().String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

func (f far) proxy(b *testing.B) *proxy.Proxy {
	return proxy.New(proxy.Config{Operator: rules(b, "tcp://load.example:9"), Resolver: f, Dialer: f, Limits: proxy.Limits{Conns: 600, Bytes: 1 << 50}})
}

// inside runs a command in a sandbox with the door open, and returns its output.
func (f far) inside(b *testing.B, stdin io.Reader, stdout io.Writer, argv ...string) {
	b.Helper()
	var stderr bytes.Buffer
	f.run(b, runner.Streams{Stdin: stdin, Stdout: stdout, Stderr: &stderr}, argv...)
	if stderr.Len() > 0 {
		b.Fatal(stderr.String())
	}
}

// run runs a command in a sandbox with the door open.
func (f far) run(b *testing.B, streams runner.Streams, argv ...string) {
	b.Helper()
	d := statetest.Dir(b)
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "load"), "./testdata/load")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	r := &runner.Runner{
		Backend: runsc.New(sandboxtest.Runsc(b), d), Guest: sandboxtest.Guest(b),
		Store: d.Path("toolchain"), Spool: d.Path(), Door: egress.Local{Proxy: f.proxy(b)},
	}
	res, err := r.Run(b.Context(), job.Spec{
		ID: "bench", Root: job.Root{Kind: job.RootHost}, Allow: []string{"tcp://load.example:9"},
		Mounts: []job.Mount{{Source: dir, Target: "/load", Mode: job.MountReadOnly}},
		Steps:  []job.Step{{Argv: argv, Network: job.NetworkRegistries}},
	}, streams)
	if err != nil || res.Exit != 0 {
		b.Fatalf("%+v, %v: %v", res, err, streams.Stderr)
	}
}

// two reads two numbers.
func two(b *testing.B, text string) (x, y float64) {
	b.Helper()
	if _, err := fmt.Sscan(text, &x, &y); err != nil {
		b.Fatalf("%q: %v", text, err)
	}
	return x, y
}

// zeros reads as zero bytes for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkDoor is the throughput of one connection through the door, in and out,
// against what the agent's channel carries of a command's output, and of what a
// socket carries within the sandbox. All in the same sandbox, in turn; medians.
func BenchmarkDoor(b *testing.B) {
	const size = 512
	f := newFar(b)
	names := []string{"stdout", "stdin", "door-in", "door-out", "loopback-in", "loopback-out"}
	speeds := map[string][]float64{}
	var in, out []float64
	for b.Loop() {
		var stderr bytes.Buffer
		streams := runner.Streams{Stdin: zeros{}, Stdout: struct{ io.Writer }{io.Discard}, Stderr: &stderr}
		f.run(b, streams, "/load/load", "figures", fmt.Sprint(size))
		for _, name := range names {
			var ns float64
			if _, err := fmt.Fscan(&stderr, &ns); err != nil {
				b.Fatal(name, err)
			}
			speeds[name] = append(speeds[name], size/ns*1e9)
		}
		last := len(in)
		in = append(in, speeds["door-in"][last]/speeds["stdout"][last])
		out = append(out, speeds["door-out"][last]/speeds["stdout"][last])
	}
	for name, s := range speeds {
		b.ReportMetric(middle(s), name+"-MiB/s")
	}
	b.ReportMetric(middle(in), "in-of-channel")
	b.ReportMetric(middle(out), "out-of-channel")
}

// BenchmarkDial is the time that a new connection takes more than one within the
// sandbox.
func BenchmarkDial(b *testing.B) {
	f := newFar(b)
	for b.Loop() {
		var out bytes.Buffer
		f.inside(b, nil, &out, "/load/load", "dial", "300")
		near, out2 := two(b, out.String())
		b.ReportMetric(near/1e6, "loopback-ms")
		b.ReportMetric((out2-near)/1e6, "added-ms")
	}
}

// BenchmarkCrowd has 500 connections at work, and then one more that isn't read: for
// a minute, or for a quarter of one with -short. What two measurements of the same
// differ by is the metric "noise".
func BenchmarkCrowd(b *testing.B) {
	f := newFar(b)
	stall := "60"
	if testing.Short() {
		stall = "15"
	}
	for b.Loop() {
		var out bytes.Buffer
		f.inside(b, nil, &out, "/load/load", "crowd", "500", stall)
		var without, during [4]float64
		var noise, worst float64
		if _, err := fmt.Sscan(out.String(), &without[0], &without[1], &without[2], &without[3],
			&during[0], &during[1], &during[2], &during[3], &noise, &worst); err != nil {
			b.Fatalf("%q: %v", out.String(), err)
		}
		for i, name := range []string{"p50", "p90", "p99", "longest"} {
			b.ReportMetric(without[i]/1e6, name+"-ms")
			b.ReportMetric(during[i]/without[i], name+"-times-with-a-stalled-reader")
		}
		b.ReportMetric(noise, "worst-conn-noise")
		b.ReportMetric(worst, "worst-conn-times")
	}
}

// BenchmarkIdle is the memory of this process for each idle connection.
func BenchmarkIdle(b *testing.B) {
	f := newFar(b)
	for b.Loop() {
		const conns = 500
		stdin, end := io.Pipe()
		stdout, w := io.Pipe()
		before := memory()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.inside(b, stdin, w, "/load/load", "idle", fmt.Sprint(conns))
		}()
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
			b.Fatal(line, err)
		}
		time.Sleep(time.Second)
		// The far server's own goroutine and buffer for each connection count too.
		b.ReportMetric(float64(memory()-before)/conns/1024, "KiB/conn")
		end.Close()
		<-done
	}
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// BenchmarkProxy is the throughput of the proxy between two TCP connections against a
// relay that decides nothing.
func BenchmarkProxy(b *testing.B) {
	f := newFar(b)
	session := f.proxy(b).Open(b.Context(), proxy.Grant{Policy: rules(b, "tcp://load.example:9")})
	defer session.Close()
	ours := front(b, func(c *net.TCPConn) { session.Serve(c) })
	relay := front(b, func(c *net.TCPConn) {
		defer c.Close()
		up, err := net.Dial("tcp", f.Addr().String())
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, c) }()
		_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{up}) // in user space, as ours
	})
	spliced := front(b, func(c *net.TCPConn) {
		defer c.Close()
		up, err := net.Dial("tcp", f.Addr().String())
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, c) }()
		_, _ = io.Copy(c, up)
	})
	var o, r, s []float64
	for b.Loop() {
		r = append(r, download(b, relay, false))
		o = append(o, download(b, ours, true))
		s = append(s, download(b, spliced, false))
	}
	b.ReportMetric(middle(o), "proxy-MiB/s")
	b.ReportMetric(middle(o)/middle(r), "of-relay")
	b.ReportMetric(middle(o)/middle(s), "of-splice")
}

func middle(l []float64) float64 {
	sorted := append([]float64(nil), l...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j] < sorted[j-1]; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	return sorted[len(sorted)/2]
}

func download(b *testing.B, addr string, tunnel bool) float64 {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if tunnel {
		_, _ = io.WriteString(c, "CONNECT load.example:9 HTTP/1.1\r\n\r\n")
		_, _ = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n")))
	}
	_, _ = io.WriteString(c, "zeros 1024\n")
	start := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
	if err != nil || n != 1024*mib {
		b.Fatal(n, err)
	}
	return float64(n) / mib / time.Since(start).Seconds()
}

// front is the address at which connections are served.
func front(b *testing.B, serve func(*net.TCPConn)) string {
	b.Helper()
	return listen(b, serve).Addr().String()
}
