//go:build sessions

package install_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// example is the base of what is recorded: paths in documents should read well.
const example = "/var/lib/quavon-example"

// override is what an operator must not do.
const override = "services:\n  sandbox-runner:\n    privileged: true\n"

// TestRecord records what terminals show of an installation into an empty directory, the
// doctor, what takes it away and one that fails, in docs/sessions: at 80 and 120 columns,
// with and without colour.
func TestRecord(t *testing.T) {
	need.That(t, os.Geteuid() == 0, "root")
	if err := os.Mkdir(example, 0o755); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, example)
	for _, columns := range []int{80, 120} {
		s := &screen{host: h, columns: columns}
		s.record("install", "quavon install --sandbox --yes --lib "+h.lib)
		s.record("doctor", "quavon doctor --sandbox-smoke")
		uninstall := "quavon uninstall --purge --yes --lib " + h.lib
		s.record("uninstall", uninstall)
		h.write("compose.override.yaml", override)
		s.record("install-fails", "quavon install --sandbox --yes --lib "+h.lib)
		if err := os.Remove(filepath.Join(h.dir, "compose.override.yaml")); err != nil {
			t.Fatal(err)
		}
		h.output(filepath.Join(sandboxtest.Module(t), "bin", "quavon"), strings.Fields(uninstall)[1:]...)
	}
}

// screen is a terminal.
type screen struct {
	*host
	columns int
}

// record types a command and keeps what the screen shows in the end.
func (s *screen) record(name, command string) {
	s.t.Helper()
	module := sandboxtest.Module(s.t)
	tmux := func(args ...string) *exec.Cmd {
		cmd := exec.Command("tmux", append([]string{"-L", fmt.Sprintf("quavon-%s-%d", name, s.columns), "-f", "/dev/null"}, args...)...)
		cmd.Dir, cmd.Env = s.dir, append(s.env, "TERM=xterm-256color", "LC_ALL=C.UTF-8", "PATH="+module+"/bin:"+s.value("PATH"))
		return cmd
	}
	done := filepath.Join(s.base, "done")
	line := fmt.Sprintf("unset NO_COLOR; printf '$ %%s\\n' '%s'; %s; printf '(exit code %%s)\\n' $?; touch %s; sleep 600", command, command, done)
	if out, err := tmux("new-session", "-d", "-x", fmt.Sprint(s.columns), "-y", "400", "sh", "-c", line).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux: %v %s", err, out)
	}
	for end := time.Now().Add(8 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if os.Remove(done) == nil {
			break
		}
	}
	for file, args := range map[string][]string{
		fmt.Sprintf("%s-%d.txt", name, s.columns): {"capture-pane", "-p"}, fmt.Sprintf("%s-%d-colour.txt", name, s.columns): {"capture-pane", "-p", "-e"},
	} {
		shown, err := tmux(args...).Output()
		if err != nil {
			s.t.Fatal(err)
		}
		path := filepath.Join(module, "docs", "sessions", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.TrimRight(string(shown), "\n")+"\n"), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := tmux("kill-server").Run(); err != nil {
		s.t.Fatal(err)
	}
}

func (h *host) value(name string) (value string) {
	for _, e := range h.env {
		if k, v, _ := strings.Cut(e, "="); k == name {
			value = v
		}
	}
	return value
}
