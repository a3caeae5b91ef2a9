package state_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// TestMain lets a test run this binary as another process that holds a slot.
func TestMain(m *testing.M) {
	if path := os.Getenv("STATE_TEST_HOLD"); path != "" {
		hold(path)
	}
	os.Exit(m.Run())
}

func hold(path string) {
	d, err := state.Open(path)
	if err != nil {
		panic(err)
	}
	if _, err := d.Create(context.Background(), "test", "held"); err != nil {
		panic(err)
	}
	// The child outlives us: it must not inherit the lock.
	child := exec.Command("sleep", "30")
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println(child.Process.Pid)
	select {}
}

func TestSlotIsClaimableOnlyAfterItsOwnersDeath(t *testing.T) {
	ctx := context.Background()
	d := statetest.Dir(t)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), "STATE_TEST_HOLD="+d.Path())
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(line, &child); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p, err := os.FindProcess(child); err == nil {
			_ = p.Kill()
		}
	}()

	if _, err := d.Claim(ctx, "test", "held"); !errors.Is(err, state.ErrInUse) {
		t.Errorf("claim while the owner lives: %v, want ErrInUse", err)
	}
	if _, err := d.Create(ctx, "test", "held"); err == nil {
		t.Error("created a second slot of the same id")
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	if _, err := d.Claim(ctx, "other", "held"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("claim by another backend: %v, want ErrNotExist", err)
	}
	s, err := d.Claim(ctx, "test", "held")
	if err != nil {
		t.Fatalf("claim after kill -9: %v", err)
	}
	if err := s.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Claim(ctx, "test", "held"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("claim after removal: %v, want ErrNotExist", err)
	}
}

func TestListAndRemove(t *testing.T) {
	ctx := context.Background()
	d := statetest.Dir(t)
	for _, id := range []string{"b", "a"} {
		s, err := d.Create(ctx, "test", id)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(s.Path("scratch", "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if id == "b" {
			defer func() {
				if err := s.Remove(ctx); err != nil {
					t.Error(err)
				}
			}()
			continue
		}
		if err := s.Remove(ctx); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCreateRefusesWhatIsNoID(t *testing.T) {
	d := statetest.Dir(t)
	for _, id := range []string{"", ".", "..", "a/b", "-x", "A", strings.Repeat("a", 65)} {
		if _, err := d.Create(context.Background(), "test", id); err == nil || fault.Hint(err) == "" {
			t.Errorf("Create(%q): %v, want an error with a hint", id, err)
		}
	}
}

// The hint is for what went wrong: an id that is taken, or a directory that can't be
// written to.
func TestCreateHints(t *testing.T) {
	d := statetest.Dir(t)
	hint := func() string {
		_, err := d.Create(context.Background(), "test", "one")
		return fault.Hint(err)
	}
	if got := hint(); got != "" {
		t.Errorf("a first one: %q", got)
	}
	if got := hint(); !strings.Contains(got, "another id") {
		t.Errorf("the same id: %q", got)
	}
	if err := os.RemoveAll(d.Path("sandboxes")); err != nil {
		t.Fatal(err)
	}
	if got := hint(); !strings.Contains(got, "make room") {
		t.Errorf("no directory: %q", got)
	}
}

// A reaper that runs all the time must never take a slot whose owner lives.
func TestReaperAndCreatorsDoNotMeet(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Minute, errors.New("test too slow"))
	defer cancel()
	d := statetest.Dir(t)
	done := make(chan struct{})
	var reaper, creators sync.WaitGroup
	reaper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			ids, err := d.List()
			if err != nil {
				t.Error(err)
			}
			for _, id := range ids {
				if s, err := d.Claim(ctx, "test", id); err == nil {
					t.Errorf("claimed %s of a live owner", id)
					_ = s.Release()
				}
			}
		}
	})
	for i := range 4 {
		creators.Go(func() {
			for j := range 25 {
				s, err := d.Create(ctx, "test", fmt.Sprintf("s-%d-%d", i, j))
				if err != nil {
					t.Error(err)
					continue
				}
				if err := s.Remove(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	creators.Wait()
	close(done)
	reaper.Wait()
	if left, _ := filepath.Glob(d.Path("sandboxes", "*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestLockHost(t *testing.T) {
	t.Setenv(state.EnvLockFile, filepath.Join(t.TempDir(), "lock"))
	release, err := state.LockHost()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.LockHost(); !errors.Is(err, state.ErrInUse) || fault.Hint(err) == "" {
		t.Errorf("second runner: %v, want ErrInUse with a hint", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := state.LockHost()
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

func TestDefault(t *testing.T) {
	t.Setenv(state.EnvDir, "/somewhere/else")
	if p, err := state.Default(); err != nil || p != "/somewhere/else" {
		t.Errorf("with %s: %q, %v", state.EnvDir, p, err)
	}
	t.Setenv(state.EnvDir, "")
	t.Setenv("XDG_STATE_HOME", "/xdg")
	want := "/xdg/quavon"
	if os.Geteuid() == 0 {
		want = "/var/lib/quavon"
	}
	if p, err := state.Default(); err != nil || p != want {
		t.Errorf("default: %q, %v; want %q", p, err, want)
	}
}
