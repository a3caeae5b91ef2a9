// Package interrupt turns termination signals into cancellation: the first one
// cancels the root context with the signal as its cause, the second skips what is
// graceful about the end, the third ends the process at once.
package interrupt

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Error is the cause of a context that a signal has cancelled.
type Error struct{ Signal syscall.Signal }

func (e *Error) Error() string {
	if e.Signal == syscall.SIGINT {
		return "interrupted"
	}
	return "stopped by " + unix.SignalName(e.Signal)
}

// ExitCode is what a shell reports for the signal.
func (e *Error) ExitCode() int { return 128 + int(e.Signal) }

// Of returns the signal that cancelled ctx, nil when none did.
func Of(ctx context.Context) *Error {
	var e *Error
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// Notify handles signals from now on. The context ends at the first one, hurry is
// closed at the second. A broken pipe is reported by the write that meets it, not
// by a signal, so that a job is cleaned up behind `quavon run … | head`.
func Notify(parent context.Context) (ctx context.Context, hurry <-chan struct{}) {
	ctx, cancel := context.WithCancelCause(parent)
	fast := make(chan struct{})
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// Notify and not Ignore: children must not inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		cancel(&Error{next(signals)})
		next(signals)
		close(fast)
		die(next(signals))
	}()
	return ctx, fast
}

func next(signals <-chan os.Signal) syscall.Signal {
	s, _ := (<-signals).(syscall.Signal) // on Unix every os.Signal is one
	return s
}

// die lets the signal do what it does to a process that never asked for it.
func die(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
}
