package commands

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
	"github.com/quavon/quavon/test/race"
)

var update = flag.Bool("update", false, "write the golden files")

// stack is what an installation has, with a runner for each backend: Valkey with the users
// that are shipped, an engine, gVisor, and the command as a process.
type stack struct {
	t      *testing.T
	quavon string
	env    []string
	// lock names the engine's image.
	lock string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	dir, err := os.MkdirTemp("", "quavon-live-") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	engine, err := dockertest.Start(filepath.Join(dir, "engine"))
	dockertest.Require(t, engine, err)
	t.Cleanup(engine.Stop)
	server := queuetest.Start(t, "--aclfile", shippedUsers(t))
	self, err := os.Executable()
	s := &stack{t: t, quavon: filepath.Join(dir, "quavon")}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	// Nothing of what is tested needs anything in an image.
	l := engine.Add(t, imagetest.Image(t, v1.Config{User: "1000:1000"}, imagetest.Gzip(t, imagetest.Tar(t, imagetest.File("only", "a file\n")))))
	doc, err2 := l.Encode()
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DOCKER_HOST=" + engine.Host,
		envGuest + "=" + sandboxtest.Guest(t), envRunsc + "=" + sandboxtest.Runsc(t),
		envQueue + "=live", envConcurrency + "=1", // not by this machine's processors
		envValkeyURL + "_FILE=" + file("url", "unix://sandbox:sandbox@"+server.Socket),
		envEgressURL + "_FILE=" + file("egress", "unix://egress:egress@"+server.Socket),
		envAdminURL + "_FILE=" + file("admin", "unix://default:default@"+server.Socket),
		envSigningKey + "_FILE=" + file("key", base64.StdEncoding.EncodeToString(key)+"\n"),
		state.EnvDir + "=" + statetest.Path(t), race.Env(t),
	}
	s.lock = lock.EnvFile + "=" + file("engine.lock.json", string(doc))
	if err := errors.Join(err, err2, os.Symlink(self, s.quavon)); err != nil {
		t.Fatal(err)
	}
	return s
}

// command is the program as another process.
func (s *stack) command(env []string, args ...string) *exec.Cmd {
	c := exec.Command(s.quavon, args...)
	c.Env, c.Dir = append(s.env, env...), filepath.Dir(s.quavon)
	return c
}

// runner starts one, which ends with the test.
func (s *stack) runner(backend string, env ...string) {
	s.t.Helper()
	var log bytes.Buffer
	c := s.command(append(env, state.EnvLockFile+"="+filepath.Join(s.t.TempDir(), "lock"), state.EnvDir+"="+statetest.Path(s.t)), "runner", "--id", "r-"+backend, "--backend", backend)
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGINT)
		if err := c.Wait(); err != nil || s.t.Failed() {
			s.t.Errorf("the runner %s ended with %v:\n%s", backend, err, log.String())
		}
	})
}

// healthy waits until so many runners are.
func (s *stack) healthy(n int) {
	s.t.Helper()
	var out []byte
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if out, _ = s.command(nil, "status").CombinedOutput(); strings.Count(string(out), " healthy") == n {
			return
		}
	}
	s.t.Fatalf("not all runners are healthy:\n%s", out)
}

// rules of normal, in their order.
var normalRules = []struct{ pattern, with string }{
	{`sha256:[0-9a-f]{64}`, "sha256:DIGEST"},
	{`gvisor [^\s,"&<]+`, "gvisor VERSION"},
	{`Docker [0-9](&#43;|[^\s,"&<])*`, "Docker VERSION"},
	{`valkey [0-9.]+`, "valkey VERSION"},
	{`/[^\s"<,:]*/(runsc|none|runsc\.sh|quavon-guest|[a-z]+(\.lock)?\.json)\b`, "/PATH/$1"},
	{`\bprocess \d+`, "process PID"},
	{`/[^ "<:;,]*/quavon-live-[0-9]+`, "/LIVE"},
	{`(host|key|API's host|machine) [0-9a-f]{16}`, "$1 ID"},
	{`API's is [0-9a-f]{16}`, "API's is ID"},
	{`(\bquavon|"quavon":) ("[^"]*"|v?[0-9][^\s,"&<]*|\(devel\)|unknown)`, "$1 VERSION"},
	{`\d{4}-\d\d-\d\d[T ][0-9:.]+( ?UTC|Z)?`, "DATE"},
	{`\d+(\.\d+)? m?s\b`, "TIME"},
	{`doctor-[a-z]+-\d+`, "JOB"},
	{`"took_s": [0-9.e-]+`, `"took_s": 0`},
	{`time="[0-9.]+"`, `time="0"`},
}

// normal is a report without what differs.
func normal(text string) string {
	for _, r := range normalRules {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// TestDoctorLive asks a stack with a runner of each backend, once, and compares each form
// of what it says: real runners, real sandboxes, a real Valkey and a real engine.
func TestDoctorLive(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		need.Skip(t, "an engine is root's to start")
	}
	s := newStack(t)
	s.runner(runsc.Name)
	s.runner(docker.Runsc, s.lock)
	s.healthy(2)
	dir := t.TempDir()
	args := []string{"doctor", "--sandbox-smoke", "--only", "QD946,QD947,QD949,QD951,QD952,QD953,QD954,QD955,QD956,QD957,QD958"}
	files := []string{"live.txt", "live.json", "live.xml", "live.html"}
	for _, f := range files {
		args = append(args, "--save", filepath.Join(dir, f))
	}
	out, err := s.command([]string{"COLUMNS=100"}, args...).CombinedOutput()
	t.Logf("%v\n%s", err, out)
	for _, f := range files {
		golden(t, filepath.Join(dir, f), filepath.Join("testdata", "doctor", f))
	}
	inTime(t, filepath.Join(dir, "live.json"))
	// The same host, without the queue: what it has is compared, what it lacks is no fault.
	out, err = s.command([]string{s.lock}, "doctor", "--all-backends", "--only", "QD951,QD952,QD957", "--save", filepath.Join(dir, "backends.txt")).CombinedOutput()
	t.Logf("%v\n%s", err, out)
	golden(t, filepath.Join(dir, "backends.txt"), filepath.Join("testdata", "doctor", "backends.txt"))
}

// golden compares a report with what it said before.
func golden(t *testing.T, file, path string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	got := normal(string(data))
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s differs (go test -update writes it): %v\n%s", path, err, got)
	}
}

// inTime bounds what a whole look at two runners takes where many tests run at once: less than
// the times of its checks one after the other. Alone on a machine it is a fraction of this.
func inTime(t *testing.T, file string) {
	t.Helper()
	var doc struct {
		Took float64 `json:"took_s"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	const most = 300
	if err != nil || doc.Took == 0 || doc.Took > most {
		t.Errorf("it took %v s, %v", doc.Took, err)
	}
}
