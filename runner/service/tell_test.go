package service_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/service/servicetest"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestFailedProbesAreTold looks into the log for why probes failed. What a sandbox said is
// cut and can neither begin a line nor move a terminal; the record in Valkey has none of it.
func TestFailedProbesAreTold(t *testing.T) {
	t.Parallel()
	q := servicetest.NewQueue(t).Open(t)
	o := servicetest.Options(t, q)
	log := &lockedBuffer{}
	o.Log = slog.New(slog.NewJSONHandler(log, nil))
	o.Probe = func(context.Context) (queue.Smoke, error) {
		s := queue.Smoke{Probes: 30, Failed: []string{"C1-canary"}, At: time.Now()}
		s.Why = []string{
			"C1-canary broken: a file of the host's was read",
			"D1-inventory broken: \x1b[2J\n{\"level\":\"INFO\",\"msg\":\"all is well\"}\u202e\x00 " + strings.Repeat("x", 100_000),
			"cut in a rune: " + strings.Repeat("\u00e9", 1000),
		}
		for range 30 {
			s.Why = append(s.Why, "one more")
		}
		return s, nil
	}
	servicetest.Start(t, o)
	h := servicetest.WaitState(t, q, o.ID, queue.StateFailed)
	if len(h.Smoke.Why) != 0 {
		t.Errorf("the record has what a sandbox said: %q", h.Smoke.Why)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "more probes failed"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log has no end: %.2000s", log.String())
		}
	}
	text := log.String()
	if !strings.Contains(text, "a file of the host's was read") || !strings.Contains(text, `"count":17`) {
		t.Errorf("it doesn't say why: %.2000s", text)
	}
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\x00\u202e") || strings.Contains(text, "\n{\"level\":\"INFO\",\"msg\":\"all is well") || len(text) > 30_000 {
		t.Errorf("it has %d bytes, and hostile text: %.2000q", len(text), text)
	}
}
