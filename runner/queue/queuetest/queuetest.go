// Package queuetest starts real Valkey servers for tests.
package queuetest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// Server is a Valkey of a test's own.
type Server struct {
	Dir string
	// Socket is where it listens.
	Socket string
	args   []string
	cmd    *exec.Cmd
	// gone lets go of the thread that started cmd.
	gone chan struct{}
}

// Start starts a server with its append-only file on, and stops it with the test. args
// are further settings, such as "--maxmemory", "8mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := StartShared(t, args...)
	t.Cleanup(s.Remove)
	return s
}

// StartShared is Start for several tests: TestMain calls Remove.
func StartShared(t testing.TB, args ...string) *Server {
	t.Helper()
	// Not t.TempDir: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "valkey-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, Socket: filepath.Join(dir, "s"), args: args}
	s.Run(t)
	return s
}

// Remove ends the server and removes its data.
func (s *Server) Remove() {
	s.Kill()
	os.RemoveAll(s.Dir)
}

// Run starts the server, again if it was killed, with what is in its directory.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	root := Root(t)
	args := append([]string{
		"--port", "0", "--unixsocket", s.Socket, "--dir", s.Dir, "--save", "", "--appendonly", "yes", "--daemonize", "no",
		"--logfile", filepath.Join(s.Dir, "log"),
	}, s.args...)
	s.cmd = exec.Command(filepath.Join(root, "usr/bin/valkey-server"), args...)
	s.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries(t, root))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	os.Remove(s.Socket)
	if err := s.start(); err != nil {
		t.Fatalf("start Valkey: %v", err)
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		// The socket is there a little before anybody listens.
		if c, err := net.Dial("unix", s.Socket); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	t.Fatalf("Valkey did not start:\n%s", log)
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		close(s.gone)
		s.cmd = nil
	}
}

// Signal sends a signal, such as SIGSTOP.
func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Settings connect to the server.
func (s *Server) Settings() conn.Settings { return conn.Settings{Addresses: []string{s.Socket}} }

// Root is where Valkey is unpacked, fetched if it isn't there.
func Root(t testing.TB) string {
	t.Helper()
	script := filepath.Join(sandboxtest.Module(t), "test/valkey/server.sh")
	out, err := exec.Command(script, "fetch").Output()
	if err != nil {
		need.Skip(t, "no Valkey: %s fetch: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}

func libraries(t testing.TB, root string) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no libraries in %s", root)
	}
	return strings.Join(dirs, ":")
}

// start starts the server on a thread of its own: the parent-death signal comes when
// the thread ends, and other threads of a test end with its sandboxes.
func (s *Server) start() error {
	started, gone := make(chan error), make(chan struct{})
	s.gone = gone
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- s.cmd.Start()
		<-gone
	}()
	return <-started
}
