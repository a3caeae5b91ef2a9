// Package runsc is the backend that drives gVisor's runsc directly: no Docker,
// no KVM, as root or rootless. A sandbox is one attached `runsc run` with the
// agent's stream on its pipes; it lives in a private mount namespace and a
// control group, and dies with the thread that started it.
package runsc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
	"github.com/quavon/quavon/runner/state"
)

// Name is the backend's name.
const Name = "runsc"

// EnvBinary names the runtime binary, when it is neither beside quavon nor in
// PATH.
const EnvBinary = "QUAVON_RUNSC"

// Backend starts sandboxes with one runsc binary and one state directory.
type Backend struct {
	binary   string
	state    *state.Dir
	rootless bool
	cgroups  *cgroup.Host
	idmaps   idmaps
	version  func() string
	digest   evidence.File
	seen     sync.Map // *evidence.File of the helpers, by path
	patience time.Duration
	weakness *Weakness // nil but in tests of the probes
}

var _ sandbox.Backend = (*Backend)(nil)

// New makes a backend. It is rootless unless the caller is root.
func New(binary string, dir *state.Dir) *Backend {
	b := &Backend{
		binary:   binary,
		state:    dir,
		rootless: os.Geteuid() != 0,
		version:  sync.OnceValue(func() string { return version(binary) }),
		patience: patience,
	}
	if !b.rootless {
		b.cgroups = cgroup.Detect()
	}
	return b
}

// Find returns the path of the runtime binary: QUAVON_RUNSC, else beside this
// program, else in PATH.
func Find() (string, error) {
	if p := os.Getenv(EnvBinary); p != "" {
		return p, nil
	}
	if self, err := os.Executable(); err == nil {
		p := filepath.Join(filepath.Dir(self), "runsc")
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p, nil
		}
	}
	p, err := exec.LookPath("runsc")
	if err != nil {
		return "", fault.Wrap(err, "find runsc", "run `make`, which builds it beside quavon, or set "+EnvBinary)
	}
	return filepath.Abs(p)
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string {
	if b.weakness != nil {
		return Name + "-weakened"
	}
	return Name
}

// notRootless is why a rootless sandbox has no cgroup limits: runsc accepts
// them there and enforces nothing.
const notRootless = "not enforced without root"

// Policies implements sandbox.Backend.
func (b *Backend) Policies() sandbox.Policies {
	p := sandbox.Policies{
		sandbox.PolicyMemory:     notRootless,
		sandbox.PolicyCPU:        notRootless,
		sandbox.PolicyPids:       notRootless,
		sandbox.PolicyDisk:       sandbox.Enforced,
		sandbox.PolicyRootHost:   sandbox.Enforced,
		sandbox.PolicyRootImage:  sandbox.Enforced,
		sandbox.PolicyMounts:     sandbox.Enforced,
		sandbox.PolicyTTY:        sandbox.Enforced,
		sandbox.PolicyRegistries: sandbox.Enforced, // no network at all; the way out is the agent's
	}
	if !b.rootless {
		p[sandbox.PolicyMemory] = b.cgroups.Missing(cgroup.Memory)
		p[sandbox.PolicyCPU] = b.cgroups.Missing(cgroup.CPU)
		p[sandbox.PolicyPids] = b.cgroups.Missing(cgroup.Pids)
	}
	return p
}

// Check implements sandbox.Backend.
func (b *Backend) Check(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, b.binary, "--version").Output()
	if err != nil {
		return fault.Wrap(err, "run "+b.binary, "run `make`, or set "+EnvBinary+" to a working runsc")
	}
	if !strings.HasPrefix(string(out), "runsc version ") {
		return fault.New(fmt.Sprintf("%s is not runsc: it says %.60q", b.binary, out), "set "+EnvBinary+" to runsc")
	}
	if !b.rootless {
		return nil
	}
	return checkUserNamespaces()
}

// userNamespaceKnobs are switches of distributions that keep user namespaces
// from unprivileged users, with the value that does so.
var userNamespaceKnobs = []struct{ file, off, hint string }{
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
}

func checkUserNamespaces() error {
	for _, k := range userNamespaceKnobs {
		data, err := os.ReadFile(k.file)
		if err == nil && strings.TrimSpace(string(data)) == k.off {
			return fault.New("this host forbids user namespaces to you ("+k.file+" is "+k.off+")",
				"let root run `"+k.hint+"`, or run quavon as root")
		}
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return fault.Wrap(err, "use user namespaces", "run quavon as root, or on a kernel that has them")
	}
	return nil
}
