//go:build install

package install_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/installer/compose"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// plain makes a phase's steps at once and remembers its acts.
type plain struct{ acts []phase.Act }

func (p *plain) WriteFile(path string, data []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return os.WriteFile(path, data, mode)
}
func (p *plain) Remove(path string) error                     { return os.Remove(path) }
func (p *plain) MkdirAll(path string, mode fs.FileMode) error { return os.MkdirAll(path, mode) }
func (p *plain) Symlink(target, path string) error            { return os.Symlink(target, path) }
func (p *plain) Act(act phase.Act, do func() error) error {
	p.acts = append(p.acts, act)
	return do()
}

// said keeps what phases report.
type said struct {
	t     *testing.T
	start time.Time
	last  string
}

func (s *said) Line(text string) {
	s.t.Logf("%6.1fs %s", time.Since(s.start).Seconds(), text)
}

func (s *said) Status(lines ...string) {
	if now := strings.Join(lines, "; "); now != s.last && now != "" {
		s.t.Logf("%6.1fs … %s", time.Since(s.start).Seconds(), now)
		s.last = now
	}
}

// builder builds with the command.
type builder struct{ h *host }

func (b builder) args(more ...string) []string {
	return append([]string{"build", "images", "--file", filepath.Join(b.h.dir, "images.yaml"), "--lock", filepath.Join(b.h.dir, "images.lock.json"), "--network", "none"}, more...)
}

func (b builder) Stale(context.Context) ([]string, error) {
	if out, err := b.h.try(b.h.quavon(), b.args("--check")...); err != nil {
		return []string{strings.TrimSpace(out)}, nil
	}
	return nil, nil
}

func (b builder) Build(_ context.Context, show phase.Reporter) error {
	out, err := b.h.try(b.h.quavon(), b.args()...)
	show.Line(out)
	return err
}

func (h *host) quavon() string { return filepath.Join(sandboxtest.Module(h.t), "bin", "quavon") }

func (h *host) secrets() {
	h.t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	for name, text := range map[string]string{
		"sandbox_signing_key":     base64.StdEncoding.EncodeToString(key),
		"valkey_sandbox_password": "one", "valkey_sandbox_url": "valkey://sandbox:one@valkey:6379",
		"valkey_egress_password": "two", "valkey_egress_url": "valkey://egress:two@valkey:6379",
	} {
		h.write("secrets/"+name, text+"\n")
		if err := os.Chmod(filepath.Join(h.dir, "secrets", name), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(h.dir, "secrets"), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

func TestPhases(t *testing.T) {
	h := newHost(t)
	h.declare()
	h.secrets()
	h.write(".env", "COMPOSE_PROFILES=sandbox\nQUAVON_DOCKER_GID=0\n")
	for _, e := range h.env { // phases run in this process
		if name, value, _ := strings.Cut(e, "="); name == "PATH" || name == "DOCKER_CONFIG" {
			t.Setenv(name, value)
		}
	}
	target := &phase.Target{Dir: h.dir, Sandbox: true, Backend: "docker-runsc", Socket: h.socket, Version: "test"}
	phases := compose.Phases(compose.Options{Target: target, Images: builder{h}, Timeout: 3 * time.Minute})
	tx := &plain{}
	show := &said{t: t, start: time.Now()}
	for _, p := range phases {
		changes, err := p.Plan(t.Context())
		if err != nil {
			t.Fatalf("plan %s: %v", p.Name(), err)
		}
		for _, c := range changes {
			t.Logf("%s: %s %s: %s", p.Name(), c.Action, c.Target, c.Summary)
		}
		if err := p.Apply(t.Context(), tx, show); err != nil {
			t.Fatalf("%s: %v", p.Name(), err)
		}
	}
	for _, p := range phases {
		changes, err := p.Plan(t.Context())
		if err != nil {
			t.Fatalf("plan %s: %v", p.Name(), err)
		}
		for _, c := range changes {
			if c.Action != phase.Check {
				t.Errorf("again, %s: %s %s: %s\n%s", p.Name(), c.Action, c.Target, c.Summary, c.Diff)
			}
		}
	}
	t.Log(h.docker("ps", "-a"))
	for i := len(tx.acts) - 1; i >= 0; i-- {
		if tx.acts[i].Name == "services" {
			if err := phases[1].Undo(t.Context(), tx.acts[i], phase.Purge, show); err != nil {
				t.Error(err)
			}
		}
	}
	if left := h.docker("ps", "-aq") + h.docker("volume", "ls", "-q", "--filter", "label=com.docker.compose.project"); left != "" {
		t.Errorf("left: %s", left)
	}
}
