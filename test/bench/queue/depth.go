package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
)

// processed is how many commands clients have sent so far, without those that
// scripts call: calls of EVALSHA and the like count once.
func (b *bench) processed(ctx context.Context) (int64, error) {
	c, err := conn.Open(conn.Settings{Addresses: []string{b.socket}})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	text, err := c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		return 0, err
	}
	var n int64
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "set", "getrange", "unlink", "xrange", "subscribe", "ping":
			count, _, _ := strings.Cut(rest, ",")
			k, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				return 0, err
			}
			n += k
		}
	}
	return n, nil
}

// serverCPU is the processor time that Valkey has used.
func (b *bench) serverCPU(ctx context.Context) (time.Duration, error) {
	c, err := conn.Open(conn.Settings{Addresses: []string{b.socket}})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	text, err := c.Do(ctx, c.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += s
		}
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// depth compares the time of a claim from a queue of 10 jobs and of 10,000, of 100
// tenants.
func (b *bench) depth(ctx context.Context) error {
	took := map[int]time.Duration{}
	for _, n := range []int{110, 10_000} {
		d, err := b.claims(ctx, n)
		if err != nil {
			return err
		}
		took[n] = d
	}
	a, z := took[110], took[10_000]
	fmt.Printf("claim and finish, median: %v with 100 queued jobs, %v with 10,000\n", a.Round(time.Microsecond), z.Round(time.Microsecond))
	b.promise(float64(z) <= 1.25*float64(a)+20e3, "10,000 queued jobs against 100: %.2f times (≤ 1.25)", float64(z)/float64(a))
	return nil
}

func (b *bench) claims(ctx context.Context, n int) (time.Duration, error) {
	q, err := b.open(ctx, "depth-"+strconv.Itoa(n))
	if err != nil {
		return 0, err
	}
	defer q.Close()
	var g errgroup.Group
	g.SetLimit(32)
	for i := range n {
		g.Go(func() error {
			t, err := q.Submit(ctx, queue.Job{ID: "j" + strconv.Itoa(i), Tenant: "t" + strconv.Itoa(i%100), Class: "host"}, nil)
			if err == nil {
				t.Close()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	w, err := q.Worker(ctx, "r1", "host")
	if err != nil {
		return 0, err
	}
	defer w.Close()
	var took []time.Duration
	for range 100 {
		began := time.Now()
		c, err := w.Claim(ctx, 1)
		if err != nil {
			return 0, err
		}
		if err := c[0].Finish(ctx, queue.Outcome{}); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
