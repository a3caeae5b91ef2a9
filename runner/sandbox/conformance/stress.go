package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/sandbox/hostlist"
	"github.com/quavon/quavon/runner/state/statetest"
)

// atOnce is how many sandboxes the second half of Stress runs side by side.
const atOnce = 8

// Stress runs many sandboxes in a row, then as many with several at once, while
// random processes of theirs, front ends among them, are killed. After the next
// reaping the host must be as it was.
func Stress(t *testing.T, f Factory, runs int) {
	s := newSuite(t, f)
	ws := statetest.Path(t)
	own(t, ws)
	var good, lost atomic.Int32
	once := func() {
		if rand.IntN(4) == 0 {
			s.killedFront(t, ws)
			return
		}
		if err := s.tryRun(t, ws); err != nil {
			lost.Add(1)
			return
		}
		good.Add(1)
	}
	stopKilling := killAtRandom()
	for range runs {
		once()
	}
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for range runs / atOnce {
				once()
			}
		})
	}
	wg.Wait()
	kills := stopKilling()
	t.Logf("%d runs were good, %d lost their sandbox, the rest their front end; %d processes killed at random", good.Load(), lost.Load(), kills)
	if g := int(good.Load()); g < runs/10 {
		t.Errorf("only %d runs were good", g)
	}
	s.reapAll(t)
	s.nothingLeft(t)
}

// killAtRandom kills processes that this one has started until its result is
// called, which says how many.
func killAtRandom() func() int {
	stop, killed := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				killed <- n
				return
			case <-time.After(time.Duration(rand.IntN(1000)) * time.Millisecond):
			}
			if pids := hostlist.Descendants(); len(pids) > 0 {
				if syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil {
					n++
				}
			}
		}
	}()
	return func() int { close(stop); return <-killed }
}

// tryRun is one run in this process. Whatever happens to the sandbox, it can be
// stopped.
func (s *suite) tryRun(t *testing.T, ws string) error {
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTime, errors.New("the run did not end in time"))
	defer cancel()
	sb, err := s.backend.Start(ctx, s.nextConfig(s.allLimits(), ws))
	if err != nil {
		return err
	}
	defer func() {
		if err := sb.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	client, err := agent.Dial(ctx, sb.Conn())
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := sb.Info(ctx); err != nil {
		return err
	}
	if err := client.Setup(ctx, agent.Setup{}); err != nil {
		return err
	}
	p, err := client.Exec(ctx, command("true"), agent.Stdio{})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// killedFront is one run of a front end of its own, which is killed.
func (s *suite) killedFront(t *testing.T, ws string) {
	cmd, err := s.frontCommand(s.nextConfig(s.allLimits(), ws))
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Errorf("start a front end: %v", err)
		return
	}
	time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
