// Package weaktest makes what sandboxes are weakened with in tests: a runc, the program
// that deceives the agent, a setuid program, a device.
package weaktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/test/need"
)

var fetched = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	out, err = exec.Command(filepath.Join(string(out[:len(out)-1]), "test", "docker", "engine.sh"), "fetch").Output()
	return filepath.Join(string(out[:max(1, len(out))-1]), "usr", "sbin", "runc"), err
})

// Runc is the runc of the engine that tests fetch.
func Runc(t testing.TB) string {
	t.Helper()
	p, err := fetched()
	if err != nil {
		need.Skip(t, "no runc: %v", err)
	}
	return p
}

// Shim builds the program that deceives the agent.
func Shim(t testing.TB) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "shim")
	cmd := exec.Command("go", "build", "-trimpath", "-o", p, "github.com/quavon/quavon/runner/smoke/weak/shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// Setuid is a copy of a program that is root's and has the setuid bit, where nobody
// else comes.
func Setuid(t testing.TB, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(t.TempDir(), filepath.Base(program))
	if err := os.WriteFile(p, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(p, 0o4755); err != nil {
		t.Fatal(err)
	}
	return p
}

// Device is a node of the loop devices' control that everyone may open.
func Device(t testing.TB) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "device")
	if err := unix.Mknod(p, unix.S_IFCHR, int(unix.Mkdev(10, 237))); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(p, 0o666); err != nil {
		t.Fatal(err)
	}
	return p
}
