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

// envKernel names another package with a kernel, for vm.sh.
const envKernel = "QUAVON_VM_KERNEL"

// TestCompatAnswered has the calls of the probe B4-compat answered by a kernel that knows system
// calls of 32 bits, as the kernel of the machine that tests run on may not: what the probe can't
// see there, it sees here. Those of x32 are answered by Debian's larger kernel alone, and only when
// it is asked to: QUAVON_VM_KERNEL=linux-image-amd64.
func TestCompatAnswered(t *testing.T) {
	t.Parallel()
	needMachine(t)
	cmd := exec.CommandContext(t.Context(), "./vm.sh", "-t", "300", "-p", "syscall.x32=y", "testdata/compat.sh", sandboxtest.Guest(t),
		"--", "sh", "./compat.sh", probe.SubCommand)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the machine: %v\n%s\n%s", err, out, stderr.Bytes())
	}
	for call, want := range map[string]string{"int80-getpid": "", "int80-socketcall": "", "x32-getpid": map[bool]string{
		true: "ENOSYS", false: "",
	}[os.Getenv(envKernel) == ""]} {
		_, rest, found := bytes.Cut(out, []byte("\n"+call+" "))
		var l probe.Line
		if err := json.NewDecoder(bytes.NewReader(rest)).Decode(&l); !found || err != nil || l.Errno != want {
			t.Errorf("%s: %q, want %q (%v)\n%s", call, l.Errno, want, err, out)
		}
	}
}
