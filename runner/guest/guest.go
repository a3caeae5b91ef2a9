// Package guest is the inside of a sandbox: the agent that runs as its first
// process, arranges the job's file systems, starts and ends commands and moves
// files, all on request of the host. It trusts the host and nothing else: jobs
// run under another uid, without capabilities, and can't reach it.
package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/guest/vm"
	"github.com/quavon/quavon/runner/sandbox"
)

// Main runs a subcommand of quavon-guest and returns the exit code. What it
// writes to stderr reaches the log of the sandbox's runtime.
func Main(args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) == 1 || len(args) > 1 && args[0] == probe.SubCommand {
		command = args[0]
	}
	var err error
	switch command {
	case "init":
		err = initAgent()
	case "vm":
		err = initMachine(stderr)
	case "version":
		_, err = fmt.Fprintf(stdout, "quavon-guest %s, protocol version %d\n", build(), wire.ProtocolVersion)
	case probe.Command, probe.SubCommand:
		err = probe.Main(args, os.Stdin, stdout) //nolint:forbidigo // the process's own, as the agent's stream is
	default:
		err = errors.New("usage: quavon-guest init|vm|probe|version")
	}
	if err != nil {
		fmt.Fprintln(stderr, "quavon-guest:", err)
		return 1
	}
	return 0
}

// maxProcs keeps a host with many processors from giving the agent many threads.
// One more than the work needs: while a process starts, its starter is stopped.
const maxProcs = 2

// initAgent serves the host on stdin and stdout until it leaves.
func initAgent() error {
	runtime.GOMAXPROCS(maxProcs)
	dropSignals()
	if err := checkScratch(os.Getenv(sandbox.EnvScratch)); err != nil {
		return err
	}
	ch, err := takeChannel()
	if err != nil {
		return fmt.Errorf("take over stdin and stdout: %w", err)
	}
	if err := hide(); err != nil {
		return fmt.Errorf("part the agent from the job: %w", err)
	}
	if err := adopt(); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	a := newAgent()
	a.conn = wire.New(ch, wire.Config{
		Side: wire.Guest, Version: wire.ProtocolVersion, Build: build(), Accept: a.accept,
	})
	a.door.conn = a.conn
	err = a.conn.Serve()
	// The first process takes all others along when it exits; any other place in
	// the tree has to end them.
	if !firstProcess() {
		err = errors.Join(err, a.killAll(0))
	}
	if errors.Is(err, wire.ErrClosed) || errors.Is(err, wire.ErrPeerGone) {
		return nil
	}
	return err
}

// initMachine is the first process of a virtual machine, and the agent in it.
func initMachine(console io.Writer) error {
	if !firstProcess() {
		return errors.New("only the first process of a machine does this")
	}
	if err := serveMachine(); err != nil {
		fmt.Fprintln(console, "quavon-guest:", err)
	}
	return vm.PowerOff()
}

func serveMachine() error {
	if err := vm.MountAll(); err != nil {
		return err
	}
	port, err := vm.OpenPort()
	if err != nil {
		return err
	}
	for _, fd := range []int{0, 1} {
		if err := unix.Dup3(int(port.Fd()), fd, 0); err != nil {
			return err
		}
	}
	keepAfterSetup |= capSet(unix.CAP_SYS_BOOT)
	return errors.Join(port.Close(), initAgent())
}

// build names this build.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// failure is a reply that carries an error.
func failure(err error) *agentpb.Reply {
	if err == nil {
		return &agentpb.Reply{}
	}
	text := err.Error()
	return &agentpb.Reply{Error: text[:min(len(text), wire.MaxText)], Errno: uint32(errnoOf(err))}
}
