package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/dotenv"
	"github.com/quavon/quavon/installer/env"
	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/secret"
)

// Files of the operator in a test's directory, beside which everything is installed.
const (
	operatorEnv    = "# mine\r\nTOKEN='a b'\r\nCOMPOSE_PROFILES=x"
	operatorDaemon = "{\n    \"debug\": true\n}"
)

var entry = daemonjson.Entry{Path: "/opt/runsc", Args: []string{"--platform=systrap"}}

// host is what the stand-ins for programs have made: a directory with a file in it,
// as an engine has containers.
type stack struct {
	target *phase.Target
	name   string
	apply  func(ctx context.Context) error
}

func (s *stack) Name() string    { return s.name }
func (s *stack) Files() []string { return []string{filepath.Join(s.target.Dir, "compose.yaml")} }

func (s *stack) Watched() []string { return []string{s.override()} }

func (s *stack) override() string { return filepath.Join(s.target.Dir, "compose.override.yaml") }

func (s *stack) running() string { return filepath.Join(s.target.Dir, "running") }

func (s *stack) version() string { return "services of " + s.target.Version + "\n" }

func (s *stack) Plan(context.Context) ([]phase.Change, error) {
	now, err := os.ReadFile(s.running())
	if err == nil && string(now) == s.version() {
		return nil, nil
	}
	return []phase.Change{{Action: phase.Run, Target: "services", Summary: "start"}}, nil
}

func (s *stack) Apply(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	if err := tx.WriteFile(s.Files()[0], []byte(s.version()), 0o644); err != nil {
		return err
	}
	if err := s.Restore(ctx, tx, show); err != nil {
		return err
	}
	if s.apply != nil {
		return s.apply(ctx)
	}
	return nil
}

// Restore runs what the file says.
func (s *stack) Restore(_ context.Context, tx phase.Tx, _ phase.Reporter) error {
	return tx.Act(phase.Act{Name: "up"}, s.up)
}

func (s *stack) up() error {
	want, err := os.ReadFile(s.Files()[0])
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(s.running())
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	return os.WriteFile(s.running(), want, 0o644)
}

func (s *stack) Undo(_ context.Context, _ phase.Act, how phase.How, _ phase.Reporter) error {
	if how == phase.Failed {
		return s.up()
	}
	err := os.Remove(s.running())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// daemon is a phase that registers a runtime in a daemon.json, with a program by link.
type daemon struct{ target *phase.Target }

func (d *daemon) Name() string { return phase.Runtime }
func (d *daemon) path() string { return filepath.Join(d.target.Dir, "etc", "daemon.json") }
func (d *daemon) lib() string  { return filepath.Join(d.target.Dir, "lib", "deep") }

func (d *daemon) Plan(context.Context) ([]phase.Change, error) {
	data, err := os.ReadFile(d.path())
	if err != nil {
		return nil, err
	}
	f, err := daemonjson.Parse(data)
	if err != nil || f.Has("runsc", entry) {
		return nil, err
	}
	return []phase.Change{{Action: phase.Edit, Target: d.path(), Summary: "register"}}, nil
}

func (d *daemon) Apply(_ context.Context, tx phase.Tx, _ phase.Reporter) error {
	data, err := os.ReadFile(d.path())
	if err != nil {
		return err
	}
	f, err := daemonjson.Parse(data)
	if err == nil {
		err = f.SetRuntime("runsc", entry)
	}
	if err != nil {
		return err
	}
	if err := tx.MkdirAll(d.lib(), 0o755); err != nil {
		return err
	}
	if err := tx.Symlink("version-1", filepath.Join(d.lib(), "runsc")); err != nil {
		return err
	}
	return tx.WriteFile(d.path(), f.Bytes(), 0o644)
}

func (d *daemon) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error { return nil }

// lines is a view that remembers.
type lines struct{ said []string }

func (l *lines) Line(text string)       { l.said = append(l.said, text) }
func (*lines) Status(...string)         {}
func (*lines) Begin(string)             {}
func (l *lines) Changed(c phase.Change) { l.said = append(l.said, c.Target) }
func (l *lines) End(name string, o Outcome, _ time.Duration) {
	l.said = append(l.said, name+" "+string(o))
}

// world is an installer in dir, with the real journal, secrets and .env.
func world(dir, version string, hook func(string)) (*Installer, *stack) {
	t := &phase.Target{Dir: dir, Sandbox: true, Version: version}
	s := &stack{target: t, name: phase.Compose}
	return &Installer{
		Target: t, Yes: true, View: &lines{}, Again: "`quavon install`",
		Phases: []phase.Phase{&daemon{t}, &secret.Secrets{Target: t}, &env.Env{Target: t}, s},
		Journal: journal.Options{Dir: t.State(), Version: version, Hook: hook, Revert: func(path string) journal.Revert {
			switch filepath.Base(path) {
			case ".env":
				return dotenv.Revert
			case "daemon.json":
				return func(before, after, now []byte) ([]byte, bool, error) {
					return daemonjson.Revert("runsc", before, after, now)
				}
			}
			return nil
		}},
	}, s
}

// deep puts the journal where directories must be made for it.
func deep(in *Installer) *Installer {
	in.Journal.Dir = filepath.Join(in.Target.Dir, "a", "b", ".quavon")
	return in
}

// operator writes the operator's own files.
func operator(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".env": operatorEnv, "etc/daemon.json": operatorDaemon} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tree is everything below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			text, _ = os.Readlink(path)
		}
		all[path] = fmt.Sprintf("%v %s", info.Mode(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMain is also the process that gets killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("QUAVON_TEST_DIR"); dir != "" {
		os.Exit(victim(dir))
	}
	os.Exit(m.Run())
}

func victim(dir string) int {
	at, _ := strconv.Atoi(os.Getenv("QUAVON_TEST_KILL"))
	n := 0
	in, _ := world(dir, os.Getenv("QUAVON_TEST_VERSION"), func(string) {
		if n++; n == at {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	})
	deep(in)
	var err error
	if os.Getenv("QUAVON_TEST_VERB") == "uninstall" {
		_, err = in.Uninstall(context.Background(), true)
	} else {
		_, err = in.Install(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
