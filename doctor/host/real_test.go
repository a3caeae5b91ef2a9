package host

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// TestRealHost runs all checks on this machine: none may be unable to say, and
// those whose answer CI's machine fixes must give it.
func TestRealHost(t *testing.T) {
	t.Parallel()
	dir := statetest.Path(t)
	c := Config{
		Host:       Real{},
		Runsc:      func() (string, error) { return sandboxtest.Runsc(t), nil },
		Socket:     func() (string, string, error) { return filepath.Join(dir, "none.sock"), "default", nil },
		StateDir:   func() (string, error) { return dir, nil },
		CheckState: state.Check,
	}
	want := map[string]doctor.State{
		"QD901": doctor.Pass, "QD911": doctor.Skip, "QD912": doctor.Skip, "QD920": doctor.Pass, "QD922": doctor.Pass, "QD940": doctor.Pass,
	}
	if os.Geteuid() == 0 {
		want["QD930"] = doctor.Pass
	}
	checks := Checks(c)
	for _, c := range checks {
		c.Timeout = 3 * time.Minute // what it finds is tested here, on a busy machine too
	}
	for _, r := range doctor.Run(t.Context(), checks, nil).Results {
		t.Logf("%s %-16s %-5s %s %q", r.Code, r.Name, r.State, r.Message, r.Details)
		if w, ok := want[r.Code]; ok && r.State != w {
			t.Errorf("%s: %s, want %s", r.Code, r.State, w)
		}
	}
}

func TestRealParts(t *testing.T) {
	t.Parallel()
	var h Real
	if loader, err := h.Interpreter(sandboxtest.Runsc(t)); err != nil || loader != "" {
		t.Errorf("runsc's loader: %q, %v", loader, err)
	}
	if loader, err := h.Interpreter("/bin/sh"); err != nil || !strings.Contains(loader, "ld-") {
		t.Errorf("the shell's loader: %q, %v", loader, err)
	}
	if _, err := h.Run(t.Context(), "quavon-no-such-program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	_, err := h.Run(t.Context(), "sh", "-c", "echo why >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "why") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a failed program: %v", err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := h.Peer(t.Context(), socket); err != nil || pid != os.Getpid() {
		t.Errorf("who listens: %d, %v", pid, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Peer(t.Context(), socket); err == nil {
		t.Error("nobody listens, and somebody was found")
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadFile(big); err == nil {
		t.Error("a file without bounds was read")
	}
	if _, err := h.ReadFile("/dev/zero"); err == nil {
		t.Error("a device was read")
	}
}
