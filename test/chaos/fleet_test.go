package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/test/race"
)

// fleet is the runners, and what is to happen to them.
type fleet struct {
	t *testing.T
	// dir has the sockets, the locks and the log.
	dir string
	log *os.File
	// env is what every process gets besides.
	env string

	mu      sync.Mutex
	ending  bool
	counts  map[string]int
	killsAt map[service.Stage]int
	holds   int
	members []*member
	done    sync.WaitGroup
}

// member is one runner, started again whenever it dies.
type member struct {
	f     *fleet
	c     childConfig
	proxy *proxy
	cmd   *exec.Cmd
}

// Kills wanted in each stage, and holds past the lease. There are twice as many ways
// to hold.
const (
	killsWanted = 11
	holdsWanted = 6
)

func newFleet(t *testing.T, dir string) *fleet {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "runners.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return &fleet{t: t, dir: dir, log: log, env: race.Env(t), counts: map[string]int{}, killsAt: map[service.Stage]int{
		service.Claimed: killsWanted, service.Running: killsWanted, service.Storing: killsWanted, service.Stored: 3,
	}, holds: holdsWanted}
}

func (f *fleet) add(c childConfig, p *proxy) {
	m := &member{f: f, c: c, proxy: p}
	f.members = append(f.members, m)
	f.done.Go(m.live)
}

func (f *fleet) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

func (f *fleet) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ending
}

// calm says that nothing more is to be killed.
func (f *fleet) calm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.holds
	for _, n := range f.killsAt {
		left += n
	}
	return left <= 0
}

// stop lets all runners end by themselves.
func (f *fleet) stop() {
	f.mu.Lock()
	f.ending = true
	for _, m := range f.members {
		if m.cmd != nil {
			_ = m.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	f.mu.Unlock()
	f.done.Wait()
}

func (m *member) live() {
	for !m.f.ended() {
		if err := m.once(); err != nil {
			m.f.count("runner starts that failed")
			fmt.Fprintln(m.f.log, m.c.ID, "ended:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// once runs the process until it dies.
func (m *member) once() error {
	askR, askW, err1 := os.Pipe()
	answerR, answerW, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		return errors.Join(err1, err2)
	}
	defer askR.Close()
	defer answerW.Close()
	text, err := json.Marshal(m.c)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envChild+"="+string(text), m.f.env)
	cmd.ExtraFiles = []*os.File{askW, answerR}
	cmd.Stderr = m.f.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The parent-death signal hangs on the thread that starts the child, and this
	// one lives as long as the goroutine is locked to it.
	started := make(chan error)
	gone := make(chan struct{})
	go lockedStart(cmd, started, gone)
	err = <-started
	askW.Close()
	answerR.Close()
	if err != nil {
		return err
	}
	m.f.mu.Lock()
	m.cmd = cmd
	if m.f.ending {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	m.f.mu.Unlock()
	ready := false
	for lines := bufio.NewScanner(askR); lines.Scan(); {
		stage, _, _ := strings.Cut(lines.Text(), " ")
		ready = ready || stage == "ready"
		m.at(service.Stage(stage), cmd)
		_, _ = answerW.Write([]byte("g"))
	}
	err = cmd.Wait()
	close(gone)
	m.f.mu.Lock()
	m.cmd = nil
	m.f.mu.Unlock()
	if ready {
		return nil // it was killed, or it ended as it should
	}
	return err
}

// at decides what happens to a runner at a stage of one of its jobs.
func (m *member) at(stage service.Stage, cmd *exec.Cmd) {
	f := m.f
	f.mu.Lock()
	kill := f.killsAt[stage] > 0 && rand.N(8) == 0
	hold := !kill && stage == service.Storing && f.holds > 0 && rand.N(8) == 0
	switch {
	case kill:
		f.killsAt[stage]--
		f.counts["kills at "+string(stage)]++
	case hold:
		f.holds--
	}
	n := f.holds
	f.mu.Unlock()
	switch {
	case kill && stage == service.Claimed:
		_ = cmd.Process.Kill()
	case kill && stage == service.Running:
		go func() { time.Sleep(rand.N(250 * time.Millisecond)); _ = cmd.Process.Kill() }()
	case kill:
		// Before the result is sent, on its way, or when Valkey has it already.
		go func() { time.Sleep(rand.N(2 * time.Millisecond)); _ = cmd.Process.Kill() }()
	case hold && n%2 == 0:
		f.count("runners stopped past their lease")
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(lease + 2*time.Second)
		_ = cmd.Process.Signal(syscall.SIGCONT)
	case hold:
		f.count("runners cut off past their lease")
		m.proxy.freeze(lease + 2*time.Second)
	}
}
