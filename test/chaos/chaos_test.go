package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/hostlist"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// Jobs and runners.
const (
	jobs    = 300
	runners = 3
	slots   = 2
	// waiting is how many jobs are submitted and waited for at once.
	waiting = 60
)

// outcome is what a submitter was told, once, of a job.
type outcome struct {
	id     string
	n      int
	result *client.Result
	out    string
}

func TestChaos(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "limits of memory want root")
	}
	// Not t.TempDir: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "chaos-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	stateDir, runsc, guest := statetest.Path(t), sandboxtest.Runsc(t), sandboxtest.Guest(t)
	st, err := state.Open(stateDir)
	if err != nil {
		t.Fatal(err)
	}
	host := hostlist.New([]string{st.Path("sandboxes")}, []string{runsc, guest}, []string{"job-", "probe-"})
	before := host.Take()
	server := queuetest.Start(t)
	key := make([]byte, envelope.KeySize)
	_, _ = rand.Read(key)
	f := newFleet(t, dir)
	ledgerPath := filepath.Join(dir, "ledger")
	for i := range runners {
		id := fmt.Sprintf("runner-%d", i)
		p := startProxy(t, filepath.Join(dir, id), server.Socket)
		f.add(childConfig{
			ID: id, Socket: p.socket, State: stateDir, Lock: filepath.Join(dir, id+".lock"), Runsc: runsc, Guest: guest,
			Ledger: ledgerPath, Key: key, Slots: slots,
		}, p)
	}
	p := startProxy(t, filepath.Join(dir, "submitter"), server.Socket)
	q := open(t, p.socket, key)
	s := &storm{fleet: f, server: server, proxies: []*proxy{p}}
	for _, m := range f.members {
		s.proxies = append(s.proxies, m.proxy)
	}
	begun := time.Now()
	outcomes := submitAll(t, f, client.New(q), func() func() { return s.begin(t) })
	took := time.Since(begun)
	verdicts := check(t, f, q, readLedger(t, ledgerPath), outcomes)
	f.stop()
	server.Remove()
	if d := host.Settle(t.Context(), before, 2*time.Minute); d != nil {
		t.Errorf("left on the host: %v", d)
	}
	report(t, f, verdicts, took)
	if t.Failed() {
		log, _ := os.ReadFile(filepath.Join(dir, "runners.log"))
		t.Logf("the runners said:\n%s", log[max(0, len(log)-64<<10):])
	}
}

func open(t *testing.T, socket string, key []byte) *queue.Queue {
	t.Helper()
	keys, err := envelope.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(t.Context(), queue.Options{
		Conn: conn.Settings{Addresses: []string{socket}}, Keys: keys, Lease: lease, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// submitAll submits and waits for all jobs, in the storm that begin starts and its
// result ends.
func submitAll(t *testing.T, f *fleet, c *client.Client, begin func() func()) []outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 16*time.Minute)
	defer cancel()
	stop := begin()
	defer stop()
	all := make([]outcome, jobs)
	slots := make(chan struct{}, waiting)
	var group sync.WaitGroup
	for n := range jobs {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			o, err := one(ctx, f, c, n)
			if err != nil {
				t.Errorf("job %d: %v", n, err)
			}
			all[n] = o
		})
	}
	group.Wait()
	return all
}

// one submits a job and waits for it. Being refused for want of a runner is an answer
// too: the job isn't in the queue then.
func one(ctx context.Context, f *fleet, c *client.Client, n int) (outcome, error) {
	j := client.Job{
		Tenant: fmt.Sprintf("tenant-%d", n%3), Attempts: 8,
		Steps: []client.Step{{Run: client.Command{"/bin/sh", "-c", fmt.Sprintf("echo mark %d; exit %d", n, n%5)}}},
	}
	if n%10 == 0 {
		j.Priority = client.Interactive
	}
	if n%6 == 0 { // a workspace there and a patch back
		j.Snapshot, j.Patch = func(_ context.Context, w io.Writer) error { _, err := w.Write(make([]byte, 1024)); return err }, true
		j.Steps[0].Run[2] = fmt.Sprintf("echo mark %d; echo %d > file; exit %d", n, n, n%5)
	}
	var ticket *client.Ticket
	for {
		var err error
		if ticket, err = c.Submit(ctx, j); err == nil {
			break
		}
		if fault.Code(err) != string(job.ReasonSandboxUnavailable) || ctx.Err() != nil {
			return outcome{}, err
		}
		f.count("jobs refused for want of a runner, and submitted again")
		time.Sleep(500 * time.Millisecond)
	}
	defer ticket.Close()
	var out restartable
	o := outcome{id: ticket.ID(), n: n}
	var err error
	o.result, err = ticket.Wait(ctx, client.Log{Stdout: &out, Note: out.note})
	o.out = out.String()
	return o, err
}

// restartable keeps what the last attempt has printed.
type restartable struct{ bytes.Buffer }

func (r *restartable) note(string) { r.Reset() }

// storm is what happens to Valkey and to connections.
type storm struct {
	fleet   *fleet
	server  *queuetest.Server
	proxies []*proxy
}

// begin starts it; the function returned ends it.
func (s *storm) begin(t *testing.T) func() {
	t.Helper()
	quit := make(chan struct{})
	var done sync.WaitGroup
	acts := []func(*testing.T){s.cut, s.freeze, s.cut, s.restart, s.cut, s.fill}
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(2*time.Second + mathrand.N(2*time.Second)):
				acts[i%len(acts)](t)
			}
		}
	})
	return func() { close(quit); done.Wait() }
}

func (s *storm) cut(*testing.T) {
	s.fleet.count("times connections were cut")
	for _, p := range s.proxies {
		if mathrand.N(2) == 0 {
			p.cut()
		}
	}
}

func (s *storm) freeze(t *testing.T) {
	s.fleet.count("times Valkey was frozen")
	s.server.Signal(t, syscall.SIGSTOP)
	time.Sleep(time.Second + mathrand.N(lease))
	s.server.Signal(t, syscall.SIGCONT)
}

func (s *storm) restart(t *testing.T) {
	s.fleet.count("times Valkey was killed and started again")
	s.server.Kill()
	time.Sleep(mathrand.N(time.Second))
	s.server.Run(t)
}

// fill leaves Valkey no memory: whatever would need some is refused.
func (s *storm) fill(t *testing.T) {
	s.fleet.count("times Valkey's memory was full")
	s.tell(t, "CONFIG SET maxmemory 1")
	time.Sleep(time.Second + mathrand.N(2*time.Second))
	s.tell(t, "CONFIG SET maxmemory 0")
}

// tell gives Valkey a command, past all proxies.
func (s *storm) tell(t *testing.T, line string) {
	c, err := net.Dial("unix", s.server.Socket)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\n", line)
	answer := make([]byte, 100)
	if n, err := c.Read(answer); err != nil || string(answer[:n]) != "+OK\r\n" {
		t.Errorf("%s: %q, %v", line, answer[:n], err)
	}
}
