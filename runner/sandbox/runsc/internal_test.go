package runsc

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// apply looks an id up in a mapping.
func apply(t *testing.T, maps []syscall.SysProcIDMap, id int) int {
	t.Helper()
	for _, m := range maps {
		if id >= m.ContainerID && id < m.ContainerID+m.Size {
			return m.HostID + id - m.ContainerID
		}
	}
	t.Errorf("id %d is not mapped", id)
	return -1
}

func TestSwapIsAPermutation(t *testing.T) {
	const last = 1<<32 - 2
	for _, pair := range [][2]uint32{{0, 60000}, {1000, 60000}, {60000, 60000}, {60001, 60000}, {59999, 60000}, {last, 60000}, {0, last}} {
		maps := swap(pair[0], pair[1])
		a, b := int(pair[0]), int(pair[1])
		for _, id := range []int{0, 1, 999, 1000, 1001, 59999, 60000, 60001, 65534, 1 << 31, last - 1, last} {
			want := id
			switch id {
			case a:
				want = b
			case b:
				want = a
			}
			if got := apply(t, maps, id); got != want {
				t.Errorf("swap(%d, %d) maps %d to %d, want %d", a, b, id, got, want)
			}
		}
		for i, m := range maps {
			for _, n := range maps[:i] {
				if m.ContainerID < n.ContainerID+n.Size && n.ContainerID < m.ContainerID+m.Size ||
					m.HostID < n.HostID+n.Size && n.HostID < m.HostID+m.Size {
					t.Errorf("swap(%d, %d): %v and %v overlap", a, b, m, n)
				}
			}
		}
	}
}

// The kernel must take every such map; five lines are the most there are.
func TestUserNamespaceTakesSwap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root maps other ids") // Rootless has no need to.
	}
	for _, uid := range []uint32{0, 1000, 60000, 1<<32 - 2} {
		f, err := newUserNamespace(swap(uid, 60000), swap(uid, 60000))
		if err != nil {
			t.Errorf("uid %d: %v", uid, err)
			continue
		}
		if kind, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWUSER {
			t.Errorf("uid %d: not a user namespace: %#x, %v", uid, kind, err)
		}
		_ = f.Close()
	}
}

// The thread is nobody else's, never the main one, and is gone with its function.
func TestOnThread(t *testing.T) {
	hold := make(chan struct{})
	tids := make(chan int)
	const n = 20
	for range n {
		onThread(func() { tids <- unix.Gettid(); <-hold })
	}
	seen := map[int]bool{}
	for range n {
		tid := <-tids
		if seen[tid] || tid == os.Getpid() {
			t.Errorf("thread %d is shared or the main one", tid)
		}
		seen[tid] = true
	}
	close(hold)
	for tid := range seen {
		for over := time.Now().Add(time.Minute); unix.Tgkill(os.Getpid(), tid, 0) == nil; time.Sleep(100 * time.Microsecond) {
			if time.Now().After(over) {
				t.Errorf("thread %d is still there", tid)
				break
			}
		}
	}
}

func TestParentOf(t *testing.T) {
	if got := parentOf(os.Getpid()); got != os.Getppid() {
		t.Errorf("parent %d, want %d", got, os.Getppid())
	}
	if got := parentOf(1 << 30); got != 0 {
		t.Errorf("parent of nothing: %d", got)
	}
}

// A write to an agent that doesn't read ends when the stream is closed.
func TestCloseEndsAWrite(t *testing.T) {
	t.Parallel()
	s := &box{}
	if err := s.pipes(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.conn.Write(make([]byte, 4*pipeSize))
		ended <- err
	}()
	t.Cleanup(s.closeConn)            // the runtime's ends stay open, as a hanging runtime's do
	time.Sleep(50 * time.Millisecond) // the pipe is full by then, or Write hasn't begun: both must end
	_ = s.conn.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a closed pipe took all of it")
		}
	case <-time.After(time.Minute):
		t.Error("the write is still waiting")
	}
}
