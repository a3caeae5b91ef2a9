package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Context is what a probe has to work with.
type Context struct {
	Input
	probe *Probe
	out   *writer
}

// Say reports a fact.
func (c *Context) Say(sub, answer string) { c.out.result(c.probe.ID, sub, "", answer) }

// Try makes one attempt and reports what came back, or that nothing did.
func (c *Context) Try(sub string, attempt func() (answer string, err error)) {
	c.TryFor(attemptTime, sub, attempt)
}

// TryFor is Try with a time of its own.
func (c *Context) TryFor(limit time.Duration, sub string, attempt func() (answer string, err error)) {
	type outcome struct {
		answer string
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := attempt()
		done <- outcome{answer, err}
	}()
	select {
	case o := <-done:
		errno, text := ErrnoName(o.err)
		if o.answer == "" {
			o.answer = text
		}
		c.out.result(c.probe.ID, sub, errno, o.answer)
	case <-time.After(limit):
		c.out.result(c.probe.ID, sub, ErrnoTimeout, "")
	}
}

// TryErr is Try for an attempt that has no answer.
func (c *Context) TryErr(sub string, attempt func() error) {
	c.Try(sub, func() (string, error) { return "", attempt() })
}

// ErrnoName is an error as a Line has it: "" for none, with what there is to say
// besides.
func ErrnoName(err error) (errno, text string) {
	var e syscall.Errno
	var r *Remote
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &r):
		return r.Errno, r.Answer
	case errors.As(err, &e):
		if name := unix.ErrnoName(e); name != "" {
			return name, ""
		}
		return fmt.Sprintf("errno %d", int(e)), ""
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ErrnoTimeout, ""
	}
	return ErrnoOther, err.Error()
}

// Remote is the error of an attempt that another process made.
type Remote struct{ Errno, Answer string }

func (r *Remote) Error() string { return strings.TrimSpace(r.Errno + " " + r.Answer) }

// scratchDir is where a job can make files: not every image has a /tmp for all.
var scratchDir = sync.OnceValue(func() string {
	const first = "/tmp"
	for _, dir := range []string{first, "/dev/shm", "/workspace"} {
		if unix.Access(dir, unix.W_OK|unix.X_OK) == nil {
			return dir
		}
	}
	return first // the workbench says that it is none
})

// Scratch is a path in the job's own place that nothing has yet.
func (c *Context) Scratch(name string) string {
	return filepath.Join(scratchDir(), "probe-"+c.Nonce+"-"+c.probe.ID+"-"+name)
}

// workbench shows that a file can be made where the attempts make theirs: else an
// error of theirs would say nothing.
func (c *Context) workbench() (string, error) {
	path := c.Scratch("bench")
	if err := os.WriteFile(path, []byte(c.Nonce), 0o600); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err == nil && string(data) != c.Nonce {
		err = errors.New("a file reads back as something else")
	}
	return "", errors.Join(err, os.Remove(path))
}
