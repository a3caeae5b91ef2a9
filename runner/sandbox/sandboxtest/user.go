package sandboxtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/state/statetest"
)

// userID is nobody's on any host.
const userID = 12345

// envUser marks the test binary's second run.
const envUser = "QUAVON_TEST_AS_USER"

// AsUser runs the calling test again as an unprivileged user with a home of its
// own, and fails with it. It returns true in that second run, which then does the
// work. Called by a user who isn't root, it is that second run already.
func AsUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	if os.Getenv(envUser) != "" {
		t.Fatal("still root after giving it up")
	}
	home := userHome(t)
	self := filepath.Join(home, "test")
	install(t, os.Args[0], self)
	env := []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "CI=" + os.Getenv("CI"), envUser + "=1", statetest.EnvBase + "=" + home,
	}
	for name, src := range map[string]string{runsc.EnvBinary: Runsc(t), EnvGuest: Guest(t), EnvProbe: Probe(t)} {
		// A directory each: one of them is shown to a sandbox as a whole.
		dst := filepath.Join(home, name, filepath.Base(src))
		install(t, src, dst)
		env = append(env, name+"="+dst)
	}
	cmd := exec.Command(self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.count=1")
	cmd.Env, cmd.Dir = env, home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: userID, Gid: userID}}
	out, err := cmd.CombinedOutput()
	t.Logf("as uid %d:\n%s", userID, out)
	if err != nil {
		t.Errorf("as uid %d: %v", userID, err)
	}
	return false
}

// userHome is a directory that a state directory may be in: no parent of it can
// be written by others.
func userHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("/var/lib", "quavon-test-") //nolint:usetesting // not below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if err := os.Chown(home, userID, userID); err != nil {
		t.Fatal(err)
	}
	return home
}

// install links or copies a program for everyone to run.
func install(t *testing.T, src, dst string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(dst), 0o755)
	if err == nil {
		err = copyFile(src, dst)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("install %s: %w", src, err))
	}
}

// copyFile starts no process meanwhile, which would have the copy open for writing until its
// own program runs: nobody can run it as long.
func copyFile(src, dst string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
