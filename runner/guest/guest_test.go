package guest

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/sandbox"
)

func TestMainUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"help"}, {"init", "now"}} {
		var out bytes.Buffer
		if code := Main(args, io.Discard, &out); code != 1 || !strings.Contains(out.String(), "usage") {
			t.Errorf("%q: %d, %s", args, code, &out)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0"
	for text, want := range map[string]process{
		"7 (sh) S 1 7 7" + rest:        {pid: 7, name: "sh", parent: 1, session: 7, start: "777"},
		"7 (a) R 5 (b) Z 3 4 5" + rest: {pid: 7, name: "a) R 5 (b", parent: 3, session: 5, start: "777", zombie: true},
		"7 (\n) (x y) S 2 3 4" + rest:  {pid: 7, name: "\n) (x y", parent: 2, session: 4, start: "777"},
		"7 (sh) S 1":                   {},
		"7 sh S 1 7 7" + rest:          {},
		"7 (sh) S one 7 7" + rest:      {pid: 7},
	} {
		got, ok := parseStat(7, []byte(text))
		if ok != (want.parent != 0) || ok && got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	self, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := parseStat(os.Getpid(), self); !ok || p.parent != os.Getppid() {
		t.Errorf("own entry: %+v, %v", p, ok)
	}
}

func TestClosure(t *testing.T) {
	t.Parallel()
	all := []process{
		{pid: 1},
		{pid: 2, parent: 1, session: 2},
		{pid: 3, parent: 2, session: 2},
		{pid: 4, parent: 3, session: 4},
		{pid: 5, parent: 4, session: 4, zombie: true},
		{pid: 6, parent: 5, session: 4},
		{pid: 7, parent: 1, session: 7},
		{pid: 8, parent: 1, session: 2},
		{pid: 9, parent: 10},
		{pid: 10, parent: 9},
	}
	var got []int
	for _, p := range closure(all, func(p process) bool { return p.session == 2 || p.pid == 9 }) {
		got = append(got, p.pid)
	}
	slices.Sort(got)
	if want := []int{2, 3, 4, 6, 8, 9, 10}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLookPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, path, want string }{
		{"tool", "PATH=/nowhere:" + dir, dir + "/tool"},
		{"text", "PATH=" + dir, ""},
		{"tool", "PATH=", ""},
		{"tool", "PATH=.:relative", ""},
		{"./tool", "PATH=" + dir, "./tool"},
		{"sh", "HOME=/", "/usr/bin/sh"},
	} {
		got, err := lookPath(c.name, []string{"PATH=/ignored", c.path})
		if c.name == "sh" {
			got, err = lookPath(c.name, nil)
		}
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestCheckExec(t *testing.T) {
	t.Parallel()
	good := func() *agentpb.Exec { return &agentpb.Exec{Argv: []string{"true"}, Dir: "/", Uid: 1, Gid: 1} }
	if err := checkExec(good()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*agentpb.Exec){
		"no program":        func(r *agentpb.Exec) { r.Argv = nil },
		"relative dir":      func(r *agentpb.Exec) { r.Dir = "x" },
		"negative time":     func(r *agentpb.Exec) { r.TimeoutNs = -1 },
		"agent's uid":       func(r *agentpb.Exec) { r.Uid = sandbox.AgentUID },
		"agent's group":     func(r *agentpb.Exec) { r.Groups = []uint32{1, sandbox.AgentUID} },
		"uid of no one":     func(r *agentpb.Exec) { r.Uid = math.MaxUint32 },
		"too many entries":  func(r *agentpb.Exec) { r.Env = make([]string, 10_000) },
		"a directory's end": func(r *agentpb.Exec) { r.Dir = "/" + strings.Repeat("x", 5000) },
	} {
		r := good()
		spoil(r)
		if checkExec(r) == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestCheckPath(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"/a": true, "/a b,c": true, "a": false, "": false, "/a/../b": false, "/a/": false, "/" + strings.Repeat("x", 5000): false,
	} {
		if err := checkPath(path); (err == nil) != ok {
			t.Errorf("%.20q: %v", path, err)
		}
	}
}

// TestOutputExpires: what is in the pipe when time is over is still read, what an
// orphan writes later is not.
func TestOutputExpires(t *testing.T) {
	t.Parallel()
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(p[0], true); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString(strings.Repeat("x", 1000)); err != nil {
		t.Fatal(err)
	}
	o := &output{f: r}
	o.expire()
	buf := make([]byte, 600)
	n1, err1 := o.Read(buf)
	_, werr := w.WriteString(strings.Repeat("y", 1000))
	n2, err2 := o.Read(buf)
	n3, err3 := o.Read(buf)
	if n1 != 600 || err1 != nil || n2 != 400 || n3 != 0 || !errors.Is(errors.Join(err2, err3), io.EOF) || werr != nil {
		t.Errorf("%d %v, %d %v, %d %v", n1, err1, n2, err2, n3, err3)
	}
	if strings.Contains(string(buf), "y") {
		t.Error("what came later was read")
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace  time.Duration
		diesOn int // the signal's number in order
		want   []syscall.Signal
	}{
		"polite":   {time.Minute, 1, []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}},
		"stubborn": {time.Millisecond, 3, []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT, syscall.SIGKILL}},
		"no grace": {0, 2, []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL}},
	} {
		var sent []syscall.Signal
		err := end(c.grace, func(s syscall.Signal) { sent = append(sent, s) }, func() bool { return len(sent) >= c.diesOn })
		if err != nil || !slices.Equal(sent, c.want) {
			t.Errorf("%s: %v, %v", name, sent, err)
		}
	}
}

// TestReaper runs in a process of its own: a reaper waits for every child.
func TestReaper(t *testing.T) {
	if os.Getenv("QUAVON_TEST_REAPER") == "" {
		t.Parallel()
		cmd, err := os.StartProcess("/proc/self/exe", []string{"test", "-test.run=^TestReaper$"}, &os.ProcAttr{
			Env: append(os.Environ(), "QUAVON_TEST_REAPER=1"), Files: []*os.File{nil, os.Stderr, os.Stderr},
		})
		if err != nil {
			t.Fatal(err)
		}
		if state, err := cmd.Wait(); err != nil || !state.Success() {
			t.Error(state, err)
		}
		return
	}
	r := newReaper()
	if !r.sweep() {
		t.Error("there are children before the first start")
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c, err := r.start("/bin/sh", []string{"sh", "-c", "exit " + strconv.Itoa(i)}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}})
			if err != nil {
				t.Error(err)
				return
			}
			if end, err := r.wait(c); err != nil || end.status.ExitStatus() != i {
				t.Errorf("process %d ends with %+v, %v", i, end, err)
			}
		})
	}
	if _, err := r.start("/nowhere", []string{"x"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}); !errors.Is(err, syscall.ENOENT) {
		t.Error("starting nothing:", err)
	}
	wg.Wait()
	if !r.sweep() {
		t.Error("there are children after the last end")
	}
	if len(r.known)+len(r.unknown) != 0 || !r.since.IsZero() {
		t.Errorf("left: %+v", r)
	}
}
