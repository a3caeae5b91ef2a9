package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/test/need"
)

// real is the host's own hierarchies. A skip fails in CI, which has them.
func real(t *testing.T) *Host {
	t.Helper()
	h := Detect()
	for _, c := range controllers {
		why := h.Missing(c)
		if why == "" {
			continue
		}
		if os.Geteuid() != 0 { // Not for lack of a part: a user's groups are root's to give.
			t.Skip(why)
		}
		need.Skip(t, "%s", why)
	}
	return h
}

func id(t *testing.T) string {
	return strings.ToLower(fmt.Sprintf("test-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid()))
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return c
}

// startIn starts a command in the group the way a backend does.
func startIn(t *testing.T, g *Group, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		leave, err := g.Start(cmd.SysProcAttr)
		if err == nil {
			err = cmd.Start()
			if lerr := leave(); lerr != nil {
				err = lerr
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestGroupHoldsAndKills(t *testing.T) {
	h := real(t)
	want := Limits{Memory: 64 << 20, CPUs: 0.5, Tasks: 20}
	g, err := h.Create(id(t), want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Limits()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-set +read):\n%s", diff)
	}
	cmd := startIn(t, g, "sh", "-c", "sleep 100 & sleep 100 & wait")
	if err := g.Holds(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := g.Holds(os.Getpid()); err == nil {
		t.Error("this process is said to be in the group")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		pids, err := g.Procs()
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v, want the shell and its children", pids)
		}
	}
	if err := g.Kill(ctx(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.Remove(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range h.dirs(g.id) {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	if err := g.Remove(ctx(t)); err != nil {
		t.Errorf("removing a second time: %v", err)
	}
}

func TestEventsTellLimitsApart(t *testing.T) {
	h := real(t)
	for _, tt := range []struct {
		name   string
		limits Limits
		script string
		memory bool
		tasks  bool
	}{
		{"nothing", Limits{Memory: 64 << 20, Tasks: 20}, "true", false, false},
		{"memory", Limits{Memory: 16 << 20, Tasks: 20}, "tail /dev/zero", true, false},
		{"tasks", Limits{Memory: 64 << 20, Tasks: 4}, "sleep 100 & sleep 100 & sleep 100 & sleep 100 & sleep 100", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := h.Create(id(t), tt.limits)
			if err != nil {
				t.Fatal(err)
			}
			_ = startIn(t, g, "sh", "-c", tt.script).Wait()
			e, err := g.Events()
			if err != nil {
				t.Fatal(err)
			}
			if (e.OOMKills > 0) != tt.memory || (e.TasksRefused > 0) != tt.tasks {
				t.Errorf("events %+v", e)
			}
			if err := g.Kill(ctx(t)); err != nil {
				t.Fatal(err)
			}
			if err := g.Remove(ctx(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A group with processes is somebody's; an empty one is a dead run's.
func TestCreateTakesOverOnlyStaleGroups(t *testing.T) {
	h := real(t)
	if _, err := h.Create(id(t), Limits{Tasks: 10}); err != nil {
		t.Fatal(err)
	}
	g, err := h.Create(id(t), Limits{Tasks: 11})
	if err != nil {
		t.Fatalf("take over an empty group: %v", err)
	}
	cmd := startIn(t, g, "sleep", "100")
	if _, err := h.Create(id(t), Limits{}); err == nil {
		t.Error("took over a group with a process")
	}
	if l, err := g.Limits(); err != nil || l.Tasks != 11 {
		t.Errorf("limits now %+v, %v", l, err)
	}
	if err := g.Kill(ctx(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.Remove(ctx(t)); err != nil {
		t.Fatal(err)
	}
}

func TestAbandoned(t *testing.T) {
	h := real(t)
	g, err := h.Create(id(t), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(h.Abandoned(time.Hour), g.id) {
		t.Error("a new group is abandoned")
	}
	if !slices.Contains(h.Abandoned(0), g.id) {
		t.Error("an empty group is not abandoned")
	}
	cmd := startIn(t, g, "sleep", "100")
	if slices.Contains(h.Abandoned(0), g.id) {
		t.Error("a group with a process is abandoned")
	}
	if err := g.Kill(ctx(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.Remove(ctx(t)); err != nil {
		t.Fatal(err)
	}
}

// The parent directory comes and goes with the first and the last sandbox.
func TestConcurrentCreateAndRemove(t *testing.T) {
	h := real(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				g, err := h.Create(fmt.Sprintf("%s-%d-%d", id(t), i, j), Limits{Tasks: 10})
				if err != nil {
					t.Error(err)
					return
				}
				if err := g.Remove(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// fakeV2 is a tree like that of a machine with version 2.
func fakeV2(t *testing.T) (*Host, string) {
	t.Helper()
	top := t.TempDir()
	fill := func(dir string, files map[string]string) {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(top, map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "memory pids\n"})
	h := &Host{
		v2:      true,
		roots:   map[Controller]string{Memory: top, CPU: top, Pids: top},
		missing: map[Controller]string{},
	}
	h.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		fill(dir, map[string]string{
			"cgroup.controllers": "", "cgroup.subtree_control": "", "cgroup.procs": "", "memory.max": "max\n",
			"memory.swap.max": "max\n", "memory.oom.group": "0\n", "cpu.max": "max 100000\n", "pids.max": "max\n",
			"memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", "pids.events": "max 0\n",
		})
		return nil
	}
	return h, top
}

func TestV2Files(t *testing.T) {
	h, _ := fakeV2(t)
	g, err := h.Create("a", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := g.Limits(); err != nil || l != (Limits{}) {
		t.Errorf("without limits: %+v, %v", l, err)
	}
	h, top := fakeV2(t)
	want := Limits{Memory: 1 << 30, CPUs: 1.5, Tasks: 70}
	if g, err = h.Create("b", want); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, parent, "b")
	for file, text := range map[string]string{
		"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000", "pids.max": "70",
		"../cgroup.subtree_control": "+memory +cpu +pids", "../../cgroup.subtree_control": "+cpu",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(data) != text {
			t.Errorf("%s is %q, %v; want %q", file, data, err, text)
		}
	}
	if got, err := g.Limits(); err != nil || got != want {
		t.Errorf("read back %+v, %v; want %+v", got, err, want)
	}
	for file, text := range map[string]string{"memory.events": "oom 3\noom_kill 2\n", "pids.events": "max 7\n"} {
		if err := write(filepath.Join(dir, file), text); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := g.Events(); err != nil || e != (Events{OOMKills: 2, TasksRefused: 7}) {
		t.Errorf("events %+v, %v", e, err)
	}
	if err := write(filepath.Join(dir, "memory.swap.max"), "max"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Limits(); err == nil {
		t.Error("swap past the memory limit is not noticed")
	}
}

func TestProbeV2(t *testing.T) {
	for _, tt := range []struct {
		name, controllers, enabled string
		// group says that the top isn't the machine's own, procs what is in it.
		group bool
		procs string
		want  string
	}{
		{"enabled", "cpu memory pids", "memory", true, "1\n", ""},
		{"machine's top", "cpu memory pids", "", false, "1\n2\n", ""},
		{"empty group", "cpu memory pids", "", true, "", ""},
		{"group with processes", "cpu memory pids", "", true, "1\n", "which has processes"},
		{"not offered", "cpu pids", "", false, "", "not available"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"cgroup.controllers": tt.controllers, "cgroup.subtree_control": tt.enabled, "cgroup.procs": tt.procs}
			if tt.group {
				files["cgroup.type"] = "domain\n"
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := probeV2(Memory, dir, false)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMissingControllerRefusesItsLimit(t *testing.T) {
	h, _ := fakeV2(t)
	delete(h.roots, Memory)
	h.missing[Memory] = "not here"
	if _, err := h.Create("a", Limits{Memory: 1 << 30}); err == nil || !strings.Contains(err.Error(), "not here") {
		t.Errorf("error %v", err)
	}
	if _, err := h.Create("b", Limits{Tasks: 10}); err != nil {
		t.Errorf("a limit that can be had: %v", err)
	}
}
