package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/service/servicetest"
	"github.com/quavon/quavon/runner/state"
)

// envChild makes this test binary a runner.
const envChild = "QUAVON_CHAOS_CHILD"

// lease is short, so that a lost runner's jobs go on soon.
const lease = 3 * time.Second

// childConfig is what a runner process is told.
type childConfig struct {
	ID, Socket, State, Lock, Runsc, Guest, Ledger string
	Key                                           []byte
	Slots                                         int
}

func TestMain(m *testing.M) {
	if text := os.Getenv(envChild); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, "runner:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild is `quavon runner` with the same parts, and two more: the ledger, and a
// word with the test at each stage of a job.
func runChild(text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	release, err := state.LockHostAt(c.Lock)
	if err != nil {
		return err
	}
	defer release()
	st, err := state.Open(c.State)
	if err != nil {
		return err
	}
	keys, err := envelope.NewKeyring(c.Key)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("runner", c.ID)
	q, err := queue.Open(ctx, queue.Options{Conn: conn.Settings{Addresses: []string{c.Socket}}, Keys: keys, Lease: lease, Log: log})
	if err != nil {
		return err
	}
	defer q.Close()
	l, err := openLedger(c.Ledger)
	if err != nil {
		return err
	}
	backend := runsc.New(c.Runsc, st)
	r := &runner.Runner{Backend: backend, Guest: c.Guest, Store: st.Path("toolchain"), Spool: st.Path(), Log: log}
	w := &witness{id: c.ID, ledger: l, runner: r, ask: os.NewFile(3, "ask"), answer: os.NewFile(4, "answer")}
	subject := service.Subject{Backend: backend, Guest: c.Guest}
	return service.New(service.Options{
		Queue: q, Runner: w, Backend: backend, ID: c.ID, Dir: st.Path("runner", c.ID), Slots: c.Slots, Log: log,
		Identify: subject.Identify, Probe: servicetest.Starts{Runner: r, Backend: backend, OwnKernel: true}.Probe,
		Observe: w.observe, Drain: 5 * time.Second, Bounds: service.Bounds{Default: service.DefaultLimits},
	}).Run(ctx, func() { w.say("ready - 0") })
}

// witness writes the ledger and asks the test before each stage.
type witness struct {
	id          string
	ledger      *ledger
	runner      *runner.Runner
	mu          sync.Mutex
	ask, answer *os.File
}

func (w *witness) observe(_ context.Context, e service.Event) {
	switch e.Stage {
	case service.Stored:
		w.ledger.add(entry{stored, e.Job, e.Attempt, w.id})
	case service.Lost:
		w.ledger.add(entry{lost, e.Job, e.Attempt, w.id})
	}
	w.say(fmt.Sprintf("%s %s %d", e.Stage, e.Job, e.Attempt))
}

// say tells the test where the process is, and goes on when it may. One job at a
// time: the others wait, as they would for a slow disk.
func (w *witness) say(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.ask, line)
	var one [1]byte
	_, _ = w.answer.Read(one[:])
}

// Run runs the job, and writes down when its mark comes out of the sandbox.
func (w *witness) Run(ctx context.Context, spec job.Spec, streams runner.Streams) (job.Result, error) {
	mark := entry{what: marked, runner: w.id}
	if err := mark.from(spec.ID); err != nil {
		return job.Result{}, err
	}
	to := streams.Stdout
	streams.Stdout = writer(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("mark ")) {
			w.ledger.add(mark)
		}
		return to.Write(p)
	})
	return w.runner.Run(ctx, spec, streams)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

var _ io.Writer = writer(nil)
