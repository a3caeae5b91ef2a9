package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent"
)

// capOutput puts the job's output limit, and a check that somebody still reads,
// in front of the caller's writers.
func (j *run) capOutput(end context.CancelCauseFunc) {
	cap := func(w io.Writer) io.Writer {
		if w == nil {
			w = io.Discard
		}
		c := &cappedWriter{w: w, job: j, end: end, turn: make(chan struct{}, 1)}
		j.writers = append(j.writers, c)
		return c
	}
	// One limit for both streams, but not one lock: a stopped reader of one must
	// not hold back the other. A writer given for both is written to by one at a time.
	if w := j.streams.Stdout; w != nil && same(w, j.streams.Stderr) {
		locked := &lockedWriter{w: w}
		j.streams.Stdout, j.streams.Stderr = locked, locked
	}
	j.streams.Stdout, j.streams.Stderr = cap(j.streams.Stdout), cap(j.streams.Stderr)
}

// same compares writers of which some can't be compared.
func same(a, b io.Writer) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// cappedWriter delivers until the job's limit; what follows is counted and
// dropped, because failing would only tell the agent what the host knows already.
type cappedWriter struct {
	w   io.Writer
	job *run
	end context.CancelCauseFunc
	// turn is held by who writes to w, or closes it; shut is set in the end.
	turn chan struct{}
	shut bool
}

func (c *cappedWriter) Write(p []byte) (int, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.shut {
		return len(p), nil
	}
	limit, total := c.job.spec.Limits.Output, c.job.written.Add(int64(len(p)))
	deliver := p
	if limit > 0 && total > limit {
		deliver = p[:max(0, int64(len(p))-(total-limit))]
		c.end(errOutputLimit)
	}
	n, err := c.w.Write(deliver)
	c.job.delivered.Add(int64(n))
	if err != nil {
		c.end(undelivered(err))
	}
	return len(p), nil
}

// lastWrite is how long a write may take that was begun before the end of a job that was
// given up.
const lastWrite = 2 * time.Second

// close gives w back to the caller: a job that was given up may still have output on its
// way. Only a write that doesn't return, such as a stopped terminal's, is left behind.
func (c *cappedWriter) close() {
	select {
	case c.turn <- struct{}{}:
		c.shut = true
		<-c.turn
	case <-time.After(lastWrite):
	}
}

// undelivered tells output without a reader from output that there is no room for.
func undelivered(err error) error {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%w: %w", errReader, err)
	}
	return fmt.Errorf("%w: %w", errUndelivered, err)
}

// stdio are a step's streams; only the first step gets the job's stdin, since
// nobody can tell how much of it a step has read ahead.
func (j *run) stdio(step int) agent.Stdio {
	s := agent.Stdio{Stdout: j.streams.Stdout, Stderr: j.streams.Stderr}
	if step == 0 {
		s.Stdin = j.streams.Stdin
	}
	return s
}

// through connects what writes a stream with what reads it. The reader's error
// wins: the writer's only follows from it.
func through(produce func(io.Writer) error, consume func(io.Reader) error) error {
	r, w := io.Pipe()
	consumed := make(chan error, 1)
	go func() {
		err := consume(r)
		if err == nil {
			_, err = io.Copy(io.Discard, r) // a tar stream is padded behind its end
		}
		_ = r.CloseWithError(err) // a pipe's reader never fails to close
		consumed <- err
	}()
	produced := produce(w)
	_ = w.CloseWithError(produced) // nil is the end of the stream
	if err := <-consumed; err != nil {
		return err
	}
	return produced
}
