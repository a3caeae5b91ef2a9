package qemu

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestFixesOfTheKernel boots machines in which what the kernel has, or was told, keeps checks of
// the doctor from passing. The commands of their fixes are typed there; where the fix is another
// boot, another machine is booted as it says. Then the checks hold.
func TestFixesOfTheKernel(t *testing.T) {
	t.Parallel()
	needMachine(t)
	t.Run("typed", func(t *testing.T) {
		t.Parallel()
		o := doctorIn(t, "", "mitigations=off cgroup_disable=memory sysctl.kernel.yama.ptrace_scope=3", "QD903 QD904 QD906 QD909 QD910")
		o.expect(t, "before", "fail|warn", "QD903", "QD904", "QD906", "QD909", "QD910")
		o.expect(t, "after", "pass", "QD909")
		o.expect(t, "after", "warn", "QD910")
		if !bytes.Contains(o, []byte("a virtual machine can be made, but nested in another")) {
			t.Errorf("QD910: no virtual machine can be made after its fix\n%s", o)
		}
	})
	t.Run("booted", func(t *testing.T) {
		t.Parallel()
		o := doctorIn(t, "", "mitigations=auto,nosmt", "QD903 QD904 QD906")
		o.expect(t, "before", "pass", "QD903", "QD904", "QD906")
	})
	t.Run("threads", func(t *testing.T) {
		t.Parallel()
		o := doctorIn(t, "-smp 2,threads=2 -cpu max,vendor=GenuineIntel", "", "QD908")
		o.expect(t, "before", "warn", "QD908")
		o.expect(t, "after", "pass", "QD908")
	})
}

// told is what the doctor has said in a machine.
type told []byte

// expect wants each check to have said something, before or after its fix was typed.
func (o told) expect(t *testing.T, when, what string, codes ...string) {
	t.Helper()
	for _, code := range codes {
		if !regexp.MustCompile(`(?m)^` + when + ` ` + code + `: +(` + what + `) +` + code + ` `).Match(o) {
			t.Errorf("%s: %s its fix was typed there is no %q\n%s", code, when, what, o)
		}
	}
}

// doctorIn asks for checks in a machine, types what their fixes say, and asks again.
func doctorIn(t *testing.T, arguments, parameters, codes string) told {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./vm.sh", "-t", "300", "-q", arguments, "-p", parameters,
		"-k", "tun vsock vhost vhost_iotlb vmw_vsock_virtio_transport_common vhost_vsock irqbypass ccp kvm kvm-amd",
		"testdata/fixes.sh", filepath.Join(sandboxtest.Module(t), "bin", "quavon"), "--", "sh", "./fixes.sh", codes)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the machine: %v\n%s\n%s", err, out, stderr.Bytes())
	}
	return out
}
