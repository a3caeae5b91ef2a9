package qemu

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestCompatAnswered has the calls of the probe B4-compat answered by a kernel that knows system
// calls of 32 bits and of x32, as that of the machine that tests run on may not: what the probe
// can't see there, it sees here. Debian's larger kernel has x32, and answers when it is told to.
func TestCompatAnswered(t *testing.T) {
	t.Parallel()
	needMachine(t)
	cmd := exec.CommandContext(t.Context(), "./vm.sh", "-t", "300", "-p", "syscall.x32=y", "testdata/compat.sh", sandboxtest.Guest(t),
		"--", "sh", "./compat.sh", probe.SubCommand)
	cmd.Env = append(os.Environ(), "QUAVON_VM_KERNEL=linux-image-amd64")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the machine: %v\n%s\n%s", err, out, stderr.Bytes())
	}
	for _, call := range []string{"int80-getpid", "int80-socketcall", "x32-getpid"} {
		_, rest, found := bytes.Cut(out, []byte("\n"+call+" "))
		var l probe.Line
		if err := json.NewDecoder(bytes.NewReader(rest)).Decode(&l); !found || err != nil || l.Sub != call || l.Errno != "" {
			t.Errorf("%s isn't answered: %q, %v\n%s", call, l.Errno, err, out)
		}
	}
}
