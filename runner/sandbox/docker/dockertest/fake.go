package dockertest

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Fake answers at a socket in an engine's place, for what a real one can't be made to
// say. The process behind the socket is the test's own.
func Fake(t testing.TB, answers http.Handler) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "q") //nolint:usetesting // a short path, for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answers} //nolint:gosec // a test's
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return socket
}
