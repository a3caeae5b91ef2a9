package egress_test

import (
	"bytes"
	"crypto/rand"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// script is a job of shell scripts in a workspace, the first of which have a network.
func script(dir string, networks int, steps ...string) job.Spec {
	s := job.Spec{
		ID: "egress-" + strings.ToLower(rand.Text()[:8]), Root: job.Root{Kind: job.RootHost}, Allow: []string{"http://ok.example"},
		Mounts: []job.Mount{{Source: dir, Target: job.WorkspaceDir, Mode: job.MountOverlay}},
	}
	for i, sh := range steps {
		st := job.Step{Argv: []string{"bash", "-c", sh}}
		if i < networks {
			st.Network = job.NetworkRegistries
		}
		s.Steps = append(s.Steps, st)
	}
	return s
}

// run runs a job whose door leads into the world.
func run(t *testing.T, w *world, s job.Spec) (job.Result, string, error) {
	t.Helper()
	w.names["ok.example"] = []netip.Addr{goodAddr}
	r := newRunner(t)
	r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules(t, "http://ok.example"), Resolver: w, Dialer: w})}
	var out bytes.Buffer
	res, err := r.Run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &out})
	return res, out.String(), err
}

// get asks through the door for the good server, and says whether it got there.
const get = `curl -s -m 60 -o /dev/null -w '%{http_code} ' http://ok.example/x; `

func TestTheDoorIsOpenForItsStepsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The first step leaves behind a process, and a connection that it holds.
	leave := `(setsid bash -c 'trap "" TERM HUP; exec 5<>/dev/tcp/127.0.0.1/3128; touch /tmp/held; while :; do sleep 0.05; done' &)
		until [ -e /tmp/held ]; do sleep 0.05; done; `
	dialed := `(: </dev/tcp/127.0.0.1/3128) 2>/dev/null && echo open || echo closed; pgrep -c bash; env | grep -ic _proxy= `
	res, out, err := run(t, w, script(t.TempDir(), 2, get+leave, get+"pgrep -c sleep; true", dialed+"; "+get+"true"))
	if err != nil || res.Exit != 0 {
		t.Fatalf("%+v, %v: %s", res, err, out)
	}
	if want := "200 200 0\nclosed\n1\n0\n000 "; out != want {
		t.Errorf("the job printed %q, want %q", out, want)
	}
	_, seen, hit := w.take()
	if len(seen) != 2 || len(hit) > 0 || res.Egress == nil || res.Egress.Connections != 2 || res.Egress.Received == 0 {
		t.Errorf("the server saw %v, the victim %v; counted %+v", seen, hit, res.Egress)
	}
}

// TestTheBytesOfAJobCountTogether: what a job may move isn't there anew for each step.
func TestTheBytesOfAJobCountTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	once, _, err := run(t, w, script(t.TempDir(), 1, get))
	if err != nil || once.Egress == nil || once.Egress.Received == 0 {
		t.Fatalf("%+v, %v", once, err)
	}
	limits := proxy.Limits{Bytes: once.Egress.Sent + once.Egress.Received}
	r := newRunner(t)
	r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules(t, "http://ok.example"), Resolver: w, Dialer: w, Limits: limits})}
	var out bytes.Buffer
	// The second goes beyond, the third may not begin.
	res, err := r.Run(t.Context(), script(t.TempDir(), 3, get+"true", get+"true", get+"true"), runner.Streams{Stdout: &out, Stderr: &out})
	if text := out.String(); err != nil || !strings.HasPrefix(text, "200 ") || !strings.HasSuffix(text, " 403 ") {
		t.Errorf("%+v, %v: %q", res, err, text)
	}
	checkCounts(t, res, map[string]int64{"byte_limit": 2})
}

func TestWithoutANetworkThereIsNoDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := script(t.TempDir(), 0, `env | grep -i proxy; `+get+`HTTP_PROXY=http://127.0.0.1:3128 `+get+"true")
	res, out, err := run(t, w, s)
	if err != nil || out != "000 000 " || res.Egress != nil {
		t.Errorf("%+v, %v: %q", res.Egress, err, out)
	}
}

func TestCredentialsAreHiddenWhileAStepHasANetwork(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		".env": "s", ".env.local": "s", "a/b/.envrc": "s", ".npmrc": "s", "a/.npmrc": "s", ".git/config": "s", ".git/modules/m/config": "s", "real": "s",
		".git/HEAD": "plain", "env": "plain", "a/npmrc": "plain",
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../real", filepath.Join(dir, "a", ".env")); err != nil {
		t.Fatal(err)
	}
	const show = `grep -rls '^s$' . | sort; grep -rls '^plain$' . | sort; echo x 2>/dev/null >.env; true`
	w := newWorld(t)
	for networks, want := range map[int]string{
		0: "./.env\n./.env.local\n./.git/config\n./.git/modules/m/config\n./.npmrc\n./a/.npmrc\n./a/b/.envrc\n./real\n./.git/HEAD\n./a/npmrc\n./env\n",
		1: "./.git/HEAD\n./a/npmrc\n./env\n",
	} {
		s := script(dir, networks, show)
		s.Changes = job.ChangesList
		res, out, err := run(t, w, s)
		if err != nil || out != want {
			t.Errorf("with %d networks: %v, %q", networks, err, out)
		}
		if changed := len(res.Changes) > 0; changed != (networks == 0) {
			t.Errorf("with %d networks: changes %v", networks, res.Changes)
		}
	}
}

func TestRefusedBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	behind := script(t.TempDir(), 1, "true", "true")
	behind.Steps[0], behind.Steps[1] = behind.Steps[1], behind.Steps[0]
	empty, upper := script(t.TempDir(), 1, "true"), script(t.TempDir(), 1, "true")
	empty.Allow, upper.Allow = nil, []string{"OK.example"}
	for name, s := range map[string]job.Spec{"a network behind a step without": behind, "no hosts": empty, "a host that isn't canonical": upper} {
		res, _, err := run(t, w, s)
		if fault.Code(err) != string(job.ReasonRejected) || fault.Hint(err) == "" || len(res.Steps) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRunner(t)
	_, err := r.Run(t.Context(), script(t.TempDir(), 1, "true"), runner.Streams{})
	if fault.Code(err) != string(job.ReasonPolicyUnsupported) {
		t.Errorf("without a door: %v", err)
	}
}
