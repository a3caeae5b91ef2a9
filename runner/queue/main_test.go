package queue_test

import (
	"os"
	"testing"

	"github.com/quavon/quavon/runner/queue/queuetest"
)

// server is a Valkey that tests share: each has a queue of its own name.
func server(t testing.TB) *queuetest.Server {
	t.Helper()
	shared.Do(func() { shared.s = queuetest.StartShared(t) })
	return shared.s
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.s != nil {
		shared.s.Remove()
	}
	os.Exit(code)
}
