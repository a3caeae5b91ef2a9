package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/chunk"
	"github.com/quavon/quavon/runner/queue/conn"
)

// snapshot compares sending a snapshot with SET of the same chunks from memory, as
// valkey-benchmark does it, with as many in flight; and watches our memory.
func (b *bench) snapshot(ctx context.Context) error {
	var sets, sends, receives []float64
	var grew int64
	debug.FreeOSMemory()
	idle := resident()
	for run := range b.runs {
		x, err := b.sets(ctx, run)
		if err != nil {
			return err
		}
		debug.FreeOSMemory()
		s, r, peak, err := b.send(ctx, run)
		if err != nil {
			return err
		}
		sets, sends, receives, grew = append(sets, x), append(sends, s), append(receives, r), max(grew, peak-idle)
	}
	for _, l := range [][]float64{sets, sends, receives} {
		slices.Sort(l)
	}
	m := b.runs / 2
	fmt.Printf("snapshot of %d MB in chunks of %d KiB: SET %.0f MB/s, submit %.0f MB/s, read %.0f MB/s\n",
		b.megs, chunk.Size>>10, sets[m], sends[m], receives[m])
	b.promise(sends[m]/sets[m] >= 0.7, "sending a snapshot against SET: %.0f %% (≥ 70 %%)", 100*sends[m]/sets[m])
	b.promise(grew <= 64<<20, "memory of submitter and runner together above idle: %d MiB (≤ 64)", grew>>20)
	return nil
}

func (b *bench) bytes() int64 { return int64(b.megs) * 1_000_000 }

func (b *bench) sets(ctx context.Context, run int) (float64, error) {
	c, err := conn.Open(conn.Settings{Addresses: []string{b.socket}})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	value := make([]byte, chunk.Size+16)
	n := (b.bytes() + chunk.Size - 1) / chunk.Size
	key := func(i int64) string { return fmt.Sprintf("bench:set:%d:%d", run, i) }
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error {
			return c.Do(ctx, c.B().Set().Key(key(i)).Value(valkey.BinaryString(value)).PxMilliseconds(600_000).Build()).Error()
		})
	}
	err = g.Wait()
	took := time.Since(began)
	for i := range n {
		c.Do(ctx, c.B().Unlink().Key(key(i)).Build())
	}
	return float64(b.megs) / took.Seconds(), err
}

// send submits a snapshot and reads it as a runner does; peak is the most memory
// that this process, which is both, had meanwhile.
func (b *bench) send(ctx context.Context, run int) (send, receive float64, peak int64, err error) {
	q, err := b.open(ctx, "snapshot-"+strconv.Itoa(run))
	if err != nil {
		return 0, 0, 0, err
	}
	defer q.Close()
	stop := watch(&peak)
	defer stop()
	began := time.Now()
	t, err := q.Submit(ctx, queue.Job{ID: "j", Tenant: "a", Class: "host"}, io.LimitReader(source{}, b.bytes()))
	if err != nil {
		return 0, 0, 0, err
	}
	t.Close()
	send = float64(b.megs) / time.Since(began).Seconds()
	w, err := q.Worker(ctx, "r1", "host")
	if err != nil {
		return 0, 0, 0, err
	}
	defer w.Close()
	c, err := w.Claim(ctx, 1)
	if err != nil {
		return 0, 0, 0, err
	}
	began = time.Now()
	r, err := c[0].Snapshot(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	n, err := io.Copy(io.Discard, r)
	if err == nil && n != b.bytes() {
		err = fmt.Errorf("read %d bytes", n)
	}
	receive = float64(b.megs) / time.Since(began).Seconds()
	if err == nil {
		err = c[0].Finish(ctx, queue.Outcome{})
	}
	stop()
	return send, receive, peak, err
}

// source costs nothing to read.
type source struct{}

func (source) Read(p []byte) (int, error) { return len(p), nil }

// watch notes the most memory until it is stopped.
func watch(peak *int64) (stop func()) {
	var most atomic.Int64
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			most.Store(max(most.Load(), resident()))
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	closed := false
	return func() {
		if !closed {
			closed = true
			close(quit)
			<-done
			*peak = most.Load()
		}
	}
}

// resident is this process's memory, in bytes.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
