package commands

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/commands/iostreams"
	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/report"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/smoke/weak"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// selfLook is a runner on this host that looks at itself.
func selfLook(t *testing.T, binary string, env map[string]string) *localSandbox {
	t.Helper()
	st, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := image.OpenStore(st.Path("images"))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{
		LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }, Log: slog.New(slog.DiscardHandler),
		IO: &iostreams.Streams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}},
	}
	return &localSandbox{
		doctorOptions: &doctorOptions{program: p, Local: true, Smoke: true, Backend: runsc.Name},
		runner: &runner.Runner{
			Backend: runsc.New(binary, st), Guest: sandboxtest.Guest(t), Store: st.Path("toolchain"), Spool: st.Path(), Images: store, Log: p.Log,
		},
	}
}

// weakBackend is what starts the sandboxes of an arm.
func weakBackend(t *testing.T, arm, runscPath string, like *runner.Runner) sandbox.Backend {
	t.Helper()
	a, err := weak.Find(arm)
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Runner(weak.Lab{Accept: runsc.RiskWeakArm, Runsc: runscPath, State: st}, like)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r.Backend
}

// TestSandboxFails shows states of a host in which QD951 to QD958 fail, with message and
// fix; those of runners and of Valkey are in doctor/fleet and doctor/valkey.
func TestSandboxFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		syscall.ForkLock.RLock() // what others start now would keep it open, and nobody could run it
		defer syscall.ForkLock.RUnlock()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	real, fake := sandboxtest.Runsc(t), write("runsc", "#!/bin/sh\n[ \"$1\" = --version ] && echo 'runsc version release-20260101.0' || exit 1\n", 0o755)
	badLock := write("images.lock.json", "{}\n", 0o600)
	mended := func(_ *testing.T, s *localSandbox) { s.runner.Backend = selfLook(t, real, nil).runner.Backend }
	for name, c := range map[string]struct {
		code, binary string
		env          map[string]string
		edit         func(*localSandbox)
		state        doctor.State
		says, fix    string
		// mend does what the fix says, where that can be done here: then the check holds.
		mend func(*testing.T, *localSandbox)
	}{
		"no-runsc":  {"QD951", filepath.Join(dir, "none"), nil, nil, doctor.Fail, "no such file", "make", mended},
		"no-hello":  {"QD952", fake, nil, nil, doctor.Fail, "can't start a sandbox", "`quavon run -- echo hello`", mended},
		"bad-lock":  {"QD953", real, map[string]string{lock.EnvFile: badLock}, nil, doctor.Fail, badLock, "quavon build images", restoreLock},
		"no-lock":   {"QD953", real, map[string]string{lock.EnvFile: filepath.Join(dir, "none.json")}, nil, doctor.Fail, "none.json", "quavon build images", restoreLock},
		"no-egress": {"QD956", real, map[string]string{envEgressProxy: "127.0.0.1:1"}, func(s *localSandbox) { s.runner.Door = egress.Local{} }, doctor.Fail, "127.0.0.1:1 can't serve", "docker compose logs sandbox-egress", startEgress},
		"no-limit":  {"QD958", real, nil, func(s *localSandbox) { s.runner.Backend = weakBackend(t, "no-disk-limit", real, s.runner) }, doctor.Fail, "disk: the job wrote", "`quavon doctor --only QD903`", mended},
		// Path and arguments are sound; the program adds its own.
		"wrapper": {"QD957", write("runsc.sh", "#!/bin/sh\nexec "+real+" --debug \"$@\"\n", 0o755), nil, nil, doctor.Fail, "isn't the registered runtime", "give this host no jobs", mended},
		"another-runtime": {"QD957", real, nil, func(s *localSandbox) {
			identify := service.Subject{Backend: s.runner.Backend, Guest: s.runner.Guest}.Identify
			s.test = &smokeTest{
				runner: s.runner, image: func(context.Context) (string, error) { return "", nil },
				identify: func(ctx context.Context) (service.Identity, error) {
					id, err := identify(ctx)
					id.Evidence.RuntimeDigest = "sha256:" + strings.Repeat("0", 64)
					return id, err
				},
			}
		}, doctor.Fail, "escape smoke test failed", "give this host no jobs", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := selfLook(t, c.binary, c.env)
			if c.edit != nil {
				c.edit(s)
			}
			check, err := doctor.Find(s.checks(), c.code)
			if err != nil {
				t.Fatal(err)
			}
			check.Needs, check.Timeout = nil, 10*time.Minute // it is no test of how fast this machine is
			r := doctor.Run(t.Context(), []*doctor.Check{check}, nil)
			f := r.Results[0].Finding
			if f.State != c.state || !strings.Contains(f.Message+strings.Join(f.Details, "\n"), c.says) || f.Fix == "" || !strings.Contains(f.Fix, c.fix) {
				t.Errorf("%s %s %q, fix %q", f.State, f.Message, f.Details, f.Fix)
			}
			file := filepath.Join(t.TempDir(), "report.txt")
			var b bytes.Buffer
			if err := errors.Join(report.Write(&b, "text", r, report.Options{}), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
				t.Fatal(err)
			}
			golden(t, file, filepath.Join("testdata", "doctor", "fails", c.code+"-"+name+".txt"))
			if c.mend == nil {
				return
			}
			c.mend(t, s)
			if f := doctor.Run(t.Context(), []*doctor.Check{check}, nil).Results[0].Finding; f.State != doctor.Pass {
				t.Errorf("after its fix: %s %s %q", f.State, f.Message, f.Details)
			}
		})
	}
}
