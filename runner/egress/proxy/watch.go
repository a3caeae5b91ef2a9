package proxy

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// idleTicks is how often within the idle limit is looked whether bytes have moved.
const idleTicks = 4

// watch closes the sockets of one client when its session ends, when it says nothing,
// when nothing moves or when it lasts too long. Waiting, it costs a timer.
type watch struct {
	limits Limits
	start  time.Time
	detach func() bool
	moved  atomic.Int64

	mu    sync.Mutex
	conns []io.Closer
	over  bool
	timer *time.Timer
	// seen is moved at the last look, quiet how many looks found it so.
	seen  int64
	quiet int
}

func newWatch(s *Session, conn Conn) *watch {
	w := &watch{limits: s.proxy.cfg.Limits, start: time.Now(), conns: []io.Closer{conn}}
	w.timer = time.AfterFunc(w.limits.Head, w.cut)
	w.detach = context.AfterFunc(s.ctx, w.cut)
	return w
}

// add watches one more socket; it reports whether the client still lives.
func (w *watch) add(c io.Closer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.conns = append(w.conns, c)
	}
	return !w.over
}

// relax replaces the limit of the head by those of a connection.
func (w *watch) relax() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over && w.timer.Stop() {
		w.timer = time.AfterFunc(w.limits.Idle/idleTicks, w.look)
	}
}

// look ends a connection on which nothing has moved for long enough.
func (w *watch) look() {
	w.mu.Lock()
	moved := w.moved.Load()
	w.quiet++
	if moved != w.seen {
		w.seen, w.quiet = moved, 0
	}
	end := w.quiet >= idleTicks || time.Since(w.start) >= w.limits.Total
	if !end && !w.over {
		w.timer.Reset(w.limits.Idle / idleTicks)
	}
	w.mu.Unlock()
	if end {
		w.cut()
	}
}

// cut closes everything.
func (w *watch) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, c := range w.conns {
		c.Close()
	}
}

// stop ends the watch itself.
func (w *watch) stop() {
	w.detach()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
