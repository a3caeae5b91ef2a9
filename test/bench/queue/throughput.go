package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
)

// throughput compares jobs per second, from submit to the result in the submitter's
// hands with a runner that does nothing, with XADD, XREADGROUP and XACK per job.
func (b *bench) throughput(ctx context.Context) error {
	var bare, ours []float64
	var commands float64
	var spent [3]time.Duration
	for run := range b.runs {
		var at [3]time.Duration
		at[0], _ = b.serverCPU(ctx)
		x, err := b.bare(ctx, run)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		at[1], _ = b.serverCPU(ctx)
		y, c, err := b.queued(ctx, run)
		if err != nil {
			return fmt.Errorf("queue: %w", err)
		}
		at[2], _ = b.serverCPU(ctx)
		bare, ours, commands = append(bare, x), append(ours, y), c
		spent[1], spent[2] = at[1]-at[0], at[2]-at[1]
	}
	fmt.Printf("Valkey's processor time per job: bare %v, queue %v\n", spent[1]/time.Duration(b.jobs), spent[2]/time.Duration(b.jobs))
	slices.Sort(bare)
	slices.Sort(ours)
	x, y := bare[len(bare)/2], ours[len(ours)/2]
	fmt.Printf("%d jobs, %d in flight: bare round trip %.0f/s, queue %.0f/s, %.1f commands per job sent to Valkey\n",
		b.jobs, b.inflight, x, y, commands)
	b.promise(y/x >= 0.2, "jobs per second against the bare round trip: %.0f %% (≥ 20 %%)", 100*y/x)
	return nil
}

// bare is the same number of submitters and runners, each waiting for its answers.
func (b *bench) bare(ctx context.Context, run int) (float64, error) {
	s := conn.Settings{Addresses: []string{b.socket}}
	submit, err := conn.Open(s)
	if err != nil {
		return 0, err
	}
	defer submit.Close()
	runner, err := conn.Open(s)
	if err != nil {
		return 0, err
	}
	defer runner.Close()
	key := "bench:bare:" + strconv.Itoa(run)
	create := submit.B().XgroupCreate().Key(key).Group("g").Id("0").Mkstream().Build()
	if err := submit.Do(ctx, create).Error(); err != nil {
		return 0, err
	}
	defer func() { submit.Do(ctx, submit.B().Del().Key(key).Build()) }()
	payload := valkey.BinaryString(make([]byte, 512))
	began := time.Now()
	var next, done atomic.Int64
	var g errgroup.Group
	for range b.inflight {
		g.Go(func() error { // submit, then play the runner of whatever comes
			for next.Add(1) <= int64(b.jobs) {
				add := submit.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("job", payload).Build()
				if err := submit.Do(ctx, add).Error(); err != nil {
					return err
				}
				n, err := take(ctx, runner, key)
				if err != nil {
					return err
				}
				done.Add(n)
			}
			return nil
		})
	}
	err = g.Wait()
	took := time.Since(began)
	if err == nil && done.Load() != int64(b.jobs) {
		err = fmt.Errorf("%d of %d were acknowledged", done.Load(), b.jobs)
	}
	return float64(b.jobs) / took.Seconds(), err
}

func take(ctx context.Context, c valkey.Client, key string) (int64, error) {
	got, err := c.Do(ctx, c.B().Xreadgroup().Group("g", "c").Count(1).Streams().Key(key).Id(">").Build()).AsXRead()
	if err != nil {
		return 0, err
	}
	return c.Do(ctx, c.B().Xack().Key(key).Group("g").Id(got[key][0].ID).Build()).AsInt64()
}

// queued returns jobs per second and commands per job.
func (b *bench) queued(ctx context.Context, run int) (float64, float64, error) {
	name := "throughput-" + strconv.Itoa(run)
	q, err := b.open(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	defer q.Close()
	rq, err := b.open(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	defer rq.Close()
	w, err := rq.Worker(ctx, "r1", "host")
	if err != nil {
		return 0, 0, err
	}
	defer w.Close()
	working, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	tasks.Go(func() { noop(working, w, b.inflight) })

	before, err := b.processed(ctx)
	if err != nil {
		return 0, 0, err
	}
	payload := make([]byte, 512)
	began := time.Now()
	var next atomic.Int64
	var g errgroup.Group
	for range b.inflight {
		g.Go(func() error {
			for i := next.Add(1); i <= int64(b.jobs); i = next.Add(1) {
				id := "j" + strconv.FormatInt(i, 10)
				t, err := q.Submit(ctx, queue.Job{ID: id, Tenant: "a", Class: "host", Payload: payload, RunFor: time.Minute}, nil)
				if err != nil {
					return err
				}
				_, err = t.Wait(ctx, nil)
				t.Close()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	took := time.Since(began)
	after, err2 := b.processed(ctx)
	if err == nil {
		err = err2
	}
	return float64(b.jobs) / took.Seconds(), float64(after-before) / float64(b.jobs), err
}

// noop claims as a runner with that many slots does, and finishes at once.
func noop(ctx context.Context, w *queue.Worker, slots int) {
	free := make(chan struct{}, slots)
	for range slots {
		free <- struct{}{}
	}
	for ctx.Err() == nil {
		select {
		case <-free:
		case <-ctx.Done():
			return
		}
		n := 1
		for ; n < slots && len(free) > 0; n++ {
			<-free
		}
		claims, err := w.Claim(ctx, n)
		if err != nil {
			return
		}
		for range n - len(claims) {
			free <- struct{}{}
		}
		for _, c := range claims {
			go func() {
				_ = c.Finish(ctx, queue.Outcome{Payload: []byte(`{"exit":0}`)})
				free <- struct{}{}
			}()
		}
	}
}
