package env

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/installer/phase"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := &Env{Target: &phase.Target{Dir: dir, Sandbox: true, Socket: socket}, Shell: func(k string) string {
		return map[string]string{"COMPOSE_PROFILES": "x"}[k]
	}}
	if err := os.WriteFile(e.Target.Env(), []byte("# mine\nTOKEN=verysecret\nCOMPOSE_PROFILES=a # why\nQUAVON_DOCKER_GID=99999"), 0o600); err != nil {
		t.Fatal(err)
	}
	changes, err := e.Plan(t.Context())
	if err != nil || len(changes) != 2 {
		t.Fatal(changes, err)
	}
	if d := changes[0].Diff; strings.Contains(d, "verysecret") || !strings.Contains(d, "+COMPOSE_PROFILES=a,sandbox # why") {
		t.Error(d)
	}
	_, after, _, err := e.edit()
	gid, _ := group(socket)
	if want := "# mine\nTOKEN=verysecret\nCOMPOSE_PROFILES=a,sandbox # why\nQUAVON_DOCKER_GID=" + gid; err != nil || string(after) != want {
		t.Errorf("%v %q", err, after)
	}
	if has, err := HasSandbox(e.Target); has || err != nil {
		t.Error(has, err)
	}
	if err := os.WriteFile(e.Target.Env(), after, 0o600); err != nil {
		t.Fatal(err)
	}
	if has, err := HasSandbox(e.Target); !has || err != nil {
		t.Error(has, err)
	}
	if changes, err := e.Plan(t.Context()); err != nil || len(changes) != 1 || changes[0].Action != phase.Check {
		t.Error(changes, err)
	}
}

// TestDiffHidesTheLastLine: a new line goes behind the last one, which may be a secret
// without an end of line.
func TestDiffHidesTheLastLine(t *testing.T) {
	t.Parallel()
	e := &Env{Target: &phase.Target{Dir: t.TempDir(), Sandbox: true}}
	for _, text := range []string{"TOKEN=verysecret", "A=1\r\nTOKEN=verysecret", "TOKEN=verysecret\n# and its twin, verysecret"} {
		if err := os.WriteFile(e.Target.Env(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		changes, err := e.Plan(t.Context())
		if err != nil || len(changes) != 1 {
			t.Fatal(changes, err)
		}
		if d := changes[0].Diff; strings.Contains(d, "verysecret") || !strings.Contains(d, "+COMPOSE_PROFILES=sandbox") {
			t.Errorf("of %q the diff is %q", text, d)
		}
	}
}
