// Package conformance is what every sandbox backend must do, as tests: carry
// bytes both ways, tell exit codes from signals, enforce each limit it claims to
// and tell which was met, keep a job away from the agent, and leave nothing on
// the host however it ends.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/sandbox"
)

// Factory opens the backend under test.
type Factory struct {
	// Open opens the backend with its state in dir. Another process does so too.
	Open func(dir string) (sandbox.Backend, error)
	// Config has a root with a shell and the usual tools, and the guest binary.
	// dir is the state directory.
	Config func(t testing.TB, dir string) sandbox.Config
	// Programs are the executables that the backend starts on the host.
	Programs []string
	// Objects lists what the backend has elsewhere than on the host, nil nothing.
	Objects func() []string
	// HostMemory says that a job sees the host's memory instead of its limit.
	HostMemory bool
}

// envFront makes this binary a front end: it starts a sandbox, says so and waits
// to be killed. The value is a front in JSON.
const envFront = "QUAVON_CONFORMANCE_FRONT"

type front struct {
	Dir    string
	Config sandbox.Config
}

// Main is for TestMain: it runs the tests, or plays the front end that one of
// them kills.
func Main(m *testing.M, f Factory) {
	if env := os.Getenv(envFront); env != "" {
		fmt.Fprintln(os.Stderr, f.front(env))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// front never returns without an error.
func (f Factory) front(env string) error {
	var c front
	if err := json.Unmarshal([]byte(env), &c); err != nil {
		return err
	}
	b, err := f.Open(c.Dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	fmt.Println("starting")
	s, err := b.Start(ctx, c.Config)
	if err != nil {
		return err
	}
	client, err := agent.Dial(ctx, s.Conn())
	if err != nil {
		return err
	}
	if err := load(ctx, b, client, c.Config); err != nil {
		return err
	}
	if err := client.Setup(ctx, agent.Setup{}); err != nil {
		return err
	}
	if _, err := client.Exec(ctx, command("sleep", "1000"), agent.Stdio{}); err != nil {
		return err
	}
	if err := holdPipes(); err != nil {
		return err
	}
	fmt.Println("running")
	time.Sleep(time.Hour)
	return errors.New("nobody killed this front end")
}

// holdTime is how long the front end's pipes outlive it.
const holdTime = 12 * time.Second

// holdPipes starts a process that keeps this one's pipes open: a sandbox must die
// with its front end, not only with the agent's stream.
func holdPipes() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	c := exec.Command("sleep", strconv.Itoa(int(holdTime.Seconds())))
	for _, e := range fds {
		n, err := strconv.Atoi(e.Name())
		link, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || n < 3 || !strings.HasPrefix(link, "pipe:") {
			continue
		}
		dup, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return err
		}
		c.ExtraFiles = append(c.ExtraFiles, os.NewFile(uintptr(dup), link))
	}
	return c.Start()
}

func command(argv ...string) agent.Command {
	return agent.Command{
		Argv: argv, Dir: "/", UID: sandbox.JobUID, GID: sandbox.JobUID,
		Env:   []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"},
		Grace: 100 * time.Millisecond,
	}
}

// Run runs the whole suite. The host must be the same after it.
func Run(t *testing.T, f Factory) {
	s := newSuite(t, f)
	for _, c := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"policies", testPolicies},
		{"info", testInfo},
		{"streams", testStreams},
		{"large streams", testLargeStreams},
		{"exits", testExits},
		{"terminal", testTerminal},
		{"files", testFiles},
		{"owner", testOwner},
		{"read-only", testReadOnly},
		{"memory limit", testMemory},
		{"pids limit", testPids},
		{"cpu limit", testCPU},
		{"disk limit", testDisk},
		{"wall clock", testWall},
		{"agent", testAgent},
		{"agent leaves", testAgentLeaves},
		{"stop", testStop},
		{"start fails", testStartFails},
		{"same id", testSameID},
		{"front end killed", testFrontKilled},
		{"front end killed while starting", testFrontKilledStarting},
		{"reap spares the living", testReapSpares},
		{"descriptors", testDescriptors},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(t, s)
			s.nothingLeft(t)
		})
	}
}
