// Command queue measures what the queue costs, against what Valkey itself needs for
// the least that any queue does, in one run, with the same client, connections and
// jobs in flight. It fails when a promise isn't kept.
//
//	queue -socket /path/valkey.sock [-jobs 20000] [-inflight 64] [-snapshot 500]
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

type bench struct {
	socket   string
	jobs     int
	inflight int
	megs     int
	runs     int
	keys     *envelope.Keyring
	suffix   string // so that a second run on the same server meets no old jobs
	failed   bool
}

func main() {
	b := &bench{suffix: "-" + strconv.FormatInt(time.Now().Unix(), 36)}
	flag.StringVar(&b.socket, "socket", "", "Valkey's socket")
	flag.IntVar(&b.jobs, "jobs", 20000, "jobs of a run")
	flag.IntVar(&b.inflight, "inflight", 64, "jobs in flight")
	flag.IntVar(&b.megs, "snapshot", 500, "size of the snapshot, MB")
	flag.IntVar(&b.runs, "runs", 3, "runs of each arm, in turn; the median counts")
	profile := flag.String("cpuprofile", "", "write a profile there")
	flag.Parse()
	err := profiled(*profile, func() error { return b.all(context.Background()) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || b.failed {
		os.Exit(1)
	}
}

// profiled runs f and writes what it spent its time on to a file, if one is named.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

func (b *bench) all(ctx context.Context) error {
	secret := make([]byte, envelope.KeySize)
	_, _ = rand.Read(secret)
	var err error
	if b.keys, err = envelope.NewKeyring(secret); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{b.throughput, b.depth, b.snapshot} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open is a queue of its own name.
func (b *bench) open(ctx context.Context, name string) (*queue.Queue, error) {
	at := conn.Settings{Addresses: []string{b.socket}}
	return queue.Open(ctx, queue.Options{Conn: at, Keys: b.keys, Name: name + b.suffix, Retention: time.Minute})
}

// promise prints a figure and whether it is as promised.
func (b *bench) promise(ok bool, format string, args ...any) {
	mark := "kept  "
	if !ok {
		mark, b.failed = "BROKEN", true
	}
	fmt.Printf(mark+" "+format+"\n", args...)
}
