package host

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

const inMachine = "in test/qemu, TestFixesOfTheKernel"

// notFollowed are the checks whose fix isn't followed by TestFixes: where it is, or why it can't be.
var notFollowed = map[string]string{
	"QD901": "another machine",
	"QD902": "another kernel",
	"QD903": inMachine,
	"QD904": inMachine,
	"QD905": "the machine's clock isn't a test's to set",
	"QD906": inMachine,
	"QD908": inMachine,
	"QD909": inMachine,
	"QD910": inMachine,
	"QD913": "another release of the engine",
	"QD930": "a package of the distribution, or another kernel",
	"QD946": "in doctor/valkey, TestGolden",
	"QD947": "in doctor/valkey, TestGolden",
	"QD948": "in doctor/valkey, TestGolden",
	"QD949": "in doctor/valkey, TestGolden",
}

// TestEveryFixIsFollowed keeps each check in one of the two: its fix is typed here, or it
// is said why it can't be.
func TestEveryFixIsFollowed(t *testing.T) {
	t.Parallel()
	followed := map[string]bool{}
	for _, s := range states() {
		followed[s.code] = true
	}
	for _, c := range Checks(Config{}) {
		if why := notFollowed[c.Code]; followed[c.Code] == (why != "") {
			t.Errorf("%s (%s): followed %t, and why it is not: %q", c.Code, c.Name, followed[c.Code], why)
		}
		delete(followed, c.Code)
	}
	if len(followed) > 0 {
		t.Errorf("there are no such checks: %v", followed)
	}
}

// Variables by which TestFixes tells TestFixesInside which state is meant, and where what
// it needs is.
const (
	envCase   = "QUAVON_FIX_CASE"
	envHouse  = "QUAVON_FIX_HOUSE"
	envEngine = "QUAVON_FIX_ENGINE"
	envBinary = "QUAVON_FIX_RUNSC"
)

// TestFixes brings a host into each state, really: with files, mounts, users, sockets,
// rules and an engine, in namespaces of the state's own. There the check must fail, what
// its fix says is typed, and the check must pass.
func TestFixes(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, whose namespaces the states are made in")
	engine, err := exec.Command(filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh"), "fetch").Output()
	if err != nil {
		need.Skip(t, "no Docker Engine: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, 4)
	for _, s := range states() {
		t.Run(s.code+"-"+s.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFixesInside$", "-test.v", "-test.count=1")
			cmd.Env = append(os.Environ(), envCase+"="+t.Name()[len("TestFixes/"):], envHouse+"="+t.TempDir(),
				envEngine+"="+strings.TrimSpace(string(engine)), envBinary+"="+sandboxtest.Runsc(t))
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
			if s.userns {
				all := []syscall.SysProcIDMap{{HostID: 0, ContainerID: 0, Size: 1 << 31}}
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all,
				}
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			alive, err := cmd.StdinPipe() // its end is the end of the state
			if err == nil {
				err = cmd.Run()
				_ = alive.Close() // it may be closed already
			}
			if err != nil || !strings.Contains(out.String(), "--- PASS: TestFixesInside") {
				t.Errorf("%v\n%s", err, out.String())
			} else {
				t.Log(out.String())
			}
		})
	}
}

// typed are the commands of a fix, in their order, and those of what it says instead.
func typed(fix string) (first, instead []string) {
	quoted := regexp.MustCompile("`[^`]*`")
	// An alternative begins outside of a command.
	plain := quoted.ReplaceAllStringFunc(fix, func(s string) string { return strings.Repeat("x", len(s)) })
	at := strings.Index(plain, ", or ")
	if at < 0 {
		at = len(fix)
	}
	list := func(s string) (out []string) {
		for _, m := range quoted.FindAllString(s, -1) {
			out = append(out, strings.Trim(m, "`"))
		}
		return out
	}
	return list(fix[:at]), list(fix[at:])
}

func TestTyped(t *testing.T) {
	t.Parallel()
	for fix, want := range map[string][]string{
		"run `a, or b` and `c`, or `d`": {"a, or b", "c"},
		"do it":                         nil,
		"write X; run `echo >>f`":       {"echo >>f"},
	} {
		if got, _ := typed(fix); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", fix, got, want)
		}
	}
}
