package commands

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/commands/iostreams"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/runtime"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// typed runs a command line without a terminal, and without what this shell has set.
func typed(t *testing.T, args ...string) (code ExitCode, out, errOut string) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p := &program{IO: iostreams.System(in, files[0], files[1]), LookupEnv: func(string) (string, bool) { return "", false }}
	code = p.run(t.Context(), args)
	var text [2]string
	for i, f := range files {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(data)
	}
	return code, text[0], text[1]
}

// engineless is a directory that an installation would take, and an engine that isn't there.
func engineless(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = statetest.Path(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"--dir", dir, "--docker-host", "unix://" + filepath.Join(dir, "none.sock")}
}

// TestOneDocument: with -o json there is one document on stdout, also when the command
// fails before it has begun.
func TestOneDocument(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, who installs")
	for _, verb := range [][]string{
		{"install", "--yes"},
		{"install", "--dry-run"},
		{"install", "--yes", "--offline", "/nowhere"},
		{"install", "--yes", "--ignore", "QD000"},
		{"rollback", "--yes"},
	} {
		_, args := engineless(t)
		code, out, errOut := typed(t, append(append(verb, "-o", "json"), args...)...)
		d := json.NewDecoder(strings.NewReader(out))
		var doc struct {
			Schema int
			OK     *bool
			Error  struct{ Text, Hint string }
		}
		if err := d.Decode(&doc); err != nil || doc.Schema != 1 || doc.OK == nil || *doc.OK || doc.Error.Text == "" {
			t.Errorf("%v: %v\n%s\n%s", verb, err, out, errOut)
		}
		if err := d.Decode(&doc); err != io.EOF {
			t.Errorf("%v: more than a document: %v\n%s", verb, err, out)
		}
		if code != exitFail {
			t.Errorf("%v exits with %d", verb, code)
		}
	}
}

// TestOthersDirectory: the journal says which files root is to remove and to write, so
// none of the verbs takes one that somebody else has written.
func TestOthersDirectory(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, whom somebody may want to use")
	for _, verb := range []string{"install", "uninstall", "rollback"} {
		dir, args := engineless(t)
		victim := filepath.Join(statetest.Path(t), "victim")
		text := `{"schema":1,"version":"v1","seq":1,"phases":{},"owned":[{"phase":"runtime","kind":"act","act":{"name":"unpack","key":"` +
			victim + `"}}]}`
		if err := os.MkdirAll(victim, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, ".quavon"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".quavon", "state.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(dir, ".quavon")
		for path, owner := range map[string]int{dir: 0, own: 12345} { // as `sudo -u` and tar leave them
			if err := os.Chown(path, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
		refuses := func(own string) {
			t.Helper()
			_, _, errOut := typed(t, append([]string{verb, "--yes"}, args...)...)
			if !strings.Contains(errOut, "others could change "+own) {
				t.Errorf("%s in %s of somebody else: %s", verb, own, errOut)
			}
			if _, err := os.Stat(victim); err != nil {
				t.Fatalf("%s: %v", verb, err)
			}
		}
		refuses(own)
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		refuses(dir)
	}
}

// TestAgain: what is to be typed again is the same installation, and no more is said of it
// than where it is: a URL may have a password.
func TestAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, again string }{
		{"install --yes --dir /srv/q", "quavon install --dir /srv/q"},
		{"install --sandbox --lib /opt/gv --runsc https://u:verysecret@registry.example/a.tar.gz --dir /srv/q", "quavon install --sandbox --dir /srv/q --lib /opt/gv"},
		{
			"install --sandbox --backend docker-runc --docker-host unix:///s --daemon-json /e/d.json --dir /srv/q",
			"quavon install --sandbox --dir /srv/q --backend docker-runc --docker-host unix:///s --daemon-json /e/d.json",
		},
		{"uninstall --purge --dir /srv/q", "quavon uninstall --purge --dir /srv/q"},
		{"install --dir /srv/my\u00a0files", "quavon install --dir '/srv/my\u00a0files'"},
	} {
		words := strings.Split(c.typed, " ")
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\u00a0", " ")
		}
		o := &installOptions{program: &program{}, verb: words[0]}
		cmd := &cobra.Command{}
		o.common(cmd)
		f := cmd.Flags()
		f.BoolVar(&o.Sandbox, "sandbox", false, "")
		f.BoolVar(&o.Purge, "purge", false, "")
		f.StringVar(&o.Backend, "backend", "", "")
		f.StringVar(&o.Runsc, "runsc", "", "")
		if err := f.Parse(words[1:]); err != nil {
			t.Fatal(err)
		}
		if got, want := o.again(), "`"+strings.ReplaceAll(c.again, "\u00a0", " ")+"`"; got != want {
			t.Errorf("%s: %s", c.typed, got)
		}
	}
}

// TestBundleIntoADevice: what isn't a file isn't replaced by one, /dev/null least of all.
func TestBundleIntoADevice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Dir(path), os.DevNull} {
		code, _, errOut := typed(t, "build", "bundle", "-o", path)
		if code == exitOK || !strings.Contains(errOut, path+" is no file") {
			t.Errorf("%s: %d %s", path, code, errOut)
		}
	}
}

// TestAcceptedByAnswer: a risk that somebody accepts when asked counts as one of the flags.
func TestAcceptedByAnswer(t *testing.T) {
	t.Parallel()
	o := &installOptions{program: &program{
		IO: iostreams.System(nil, nil, nil), LookupEnv: func(string) (string, bool) { return "", false },
	}, Dir: t.TempDir(), DockerHost: "unix:///none"}
	in, _, err := o.installer()
	if err != nil {
		t.Fatal(err)
	}
	r, ok := in.Phases[1].(*runtime.Runtime)
	if !ok || r.Accepted(phase.RestartDocker) {
		t.Fatal("the phase of gVisor accepts without a word")
	}
	in.Accept = append(in.Accept, phase.RestartDocker)
	if !r.Accepted(phase.RestartDocker) {
		t.Error("an answer doesn't count")
	}
}

// TestHeld: a second installation with the same directory for gVisor doesn't begin.
func TestHeld(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, who installs")
	dir, args := engineless(t)
	args = append(args, "--lib", filepath.Join(dir, "lib"), "--yes")
	o := &installOptions{program: &program{
		IO: iostreams.System(nil, nil, nil), LookupEnv: func(string) (string, bool) { return "", false },
	}, Dir: statetest.Path(t), DockerHost: "unix:///none", Lib: filepath.Join(dir, "lib"), Sandbox: true}
	in, _, err := o.installer()
	if err != nil {
		t.Fatal(err)
	}
	release, err := in.Hold()
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"schema": 1, "version": "v1", "phases": {"env": {}}, "owned": []}`
	if err := os.Mkdir(filepath.Join(dir, ".quavon"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, ".quavon", "state.json"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, ".env"), []byte("COMPOSE_PROFILES=sandbox\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	const held = "another quavon installs or uninstalls"
	for _, verb := range []string{"uninstall", "rollback"} {
		if code, _, errOut := typed(t, append([]string{verb}, args...)...); code != exitFail || !strings.Contains(errOut, held) {
			t.Errorf("%s: %d %s", verb, code, errOut)
		}
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if _, _, errOut := typed(t, append([]string{"rollback"}, args...)...); strings.Contains(errOut, held) {
		t.Errorf("after the first: %s", errOut)
	}
}

// TestInterruptedQuestion: a signal ends a question, whose answer is then no.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	in, hand, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hand.Close() // which types nothing
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o := &installOptions{program: &program{IO: iostreams.System(in, out, out)}}
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted)
	if yes, err := o.ask(ctx, "Go on?"); yes || !errors.Is(err, interrupted) {
		t.Errorf("%v %v", yes, err)
	}
	for typed, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "n\n": false} {
		in, hand, err := os.Pipe()
		if err == nil {
			_, err = hand.WriteString(typed)
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &installOptions{program: &program{IO: iostreams.System(in, out, out)}}
		if yes, err := o.ask(t.Context(), "Go on?"); yes != want || err != nil {
			t.Errorf("%q: %v %v", typed, yes, err)
		}
		_, _ = in.Close(), hand.Close()
	}
}
