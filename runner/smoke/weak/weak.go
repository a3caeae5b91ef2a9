// Package weak makes sandboxes that are deliberately weakened, each in one way, for
// the controls of the escape probes: a probe is worth something only if it reports
// the sandbox in which what it looks for is there. The job, the agent and the way
// through the runner are the same as ever; what differs is the bundle, the runtime's
// arguments, the runtime, or what the job is allowed. Refused on a host
// on which nobody has accepted it by name.
package weak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/state"
)

// Lab is what weakened sandboxes are made with. Only what an arm Needs has to be
// there.
type Lab struct {
	// Accept is runsc.RiskWeakArm where weakened sandboxes may run; else none is made.
	Accept string

	Runsc, Runc string
	// Shim is the host path of the program shim, alone in its directory.
	Shim string
	// Setuid is the host path of a program of root's with the setuid bit, alone in its
	// directory.
	Setuid string
	State  *state.Dir
	// Device is the host path of a device's node that everyone may open.
	Device string
	// Dir is a host directory, for everyone to write to.
	Dir string
	// Socket is the host path of a listening socket, alone in its directory.
	Socket string
	// Netns is the path of a network namespace with an interface for gVisor to take,
	// HostNetns that of one that stands for the host's: what gets out must get nowhere.
	Netns, HostNetns string
	// Net makes Netns so that it leads to a world; nil can't.
	Net func(*smoke.World) (path string, err error)
	// Secret is a value that no job may find.
	Secret string
	// Dial is how an open door connects; nil is this host's way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Need is something of a Lab.
type Need string

// What arms need.
const (
	NeedRunc   Need = "runc"
	NeedShim   Need = "shim"
	NeedSetuid Need = "a setuid program"
	NeedDevice Need = "a device"
	NeedDir    Need = "a directory of the host"
	NeedSocket Need = "a socket of the host"
	NeedNetns  Need = "a network namespace"
	NeedHost   Need = "a stand-in for the host's network"
	NeedSecret Need = "a secret"
)

// missing says what of its needs an arm doesn't find.
func (l Lab) missing(needs []Need) error {
	have := map[Need]string{
		NeedRunc: l.Runc, NeedShim: l.Shim, NeedSetuid: l.Setuid, NeedDevice: l.Device, NeedDir: l.Dir,
		NeedSocket: l.Socket, NeedNetns: l.Netns, NeedHost: l.HostNetns, NeedSecret: l.Secret,
	}
	for _, n := range needs {
		if have[n] == "" {
			return fmt.Errorf("the lab has no %s", n)
		}
	}
	return nil
}

// Arm is one way to weaken a sandbox.
type Arm struct {
	// Name is stable; What says in words what is weakened.
	Name, What string
	Needs      []Need

	bundle []edit
	args   []func([]string) []string
	limits func(*job.Limits)
	job    func(Lab, *job.Spec)
	door   bool
	leak   string
	keep   bool
}

// edit changes a bundle. The lab is checked for what the arm needs.
type edit func(Lab, *specs.Spec)

// Find returns the arm of a name.
func Find(name string) (Arm, error) {
	i := slices.IndexFunc(Arms, func(a Arm) bool { return a.Name == name })
	if i < 0 {
		return Arm{}, fmt.Errorf("there is no weakened sandbox %q", name)
	}
	return Arms[i], nil
}

// backend makes the arm's backend. release lets go of what it holds.
func (a Arm) backend(l Lab) (b sandbox.Backend, release func(), err error) {
	if err := l.missing(a.Needs); err != nil {
		return nil, nil, fmt.Errorf("weakened sandbox %s: %w", a.Name, err)
	}
	w := runsc.Weakness{Name: a.Name, Accept: l.Accept}
	release = func() {}
	if a.leak != "" {
		f, err := os.Open(a.leak)
		if err != nil {
			return nil, nil, err
		}
		w.Files, release = []*os.File{f}, func() { f.Close() }
	}
	binary := l.Runsc
	if slices.Contains(a.Needs, NeedRunc) {
		binary = l.Runc
	}
	w.Bundle = func(s *specs.Spec) {
		for _, e := range a.bundle {
			e(l, s)
		}
	}
	w.Args = func(args []string) []string {
		for _, f := range a.args {
			args = f(args)
		}
		return args
	}
	weak, err := runsc.NewWeak(binary, l.State, w)
	if err != nil {
		release()
		return nil, nil, err
	}
	if slices.Contains(a.Needs, NeedRunc) {
		return sweeper{weak}, release, nil
	}
	if a.keep {
		k := &keeper{Backend: weak}
		return k, k.release, nil
	}
	if a.limits == nil {
		return weak, release, nil
	}
	return unlimited{weak, a.limits}, release, nil
}

// unlimited forgets a limit that the job has.
type unlimited struct {
	sandbox.Backend
	forget func(*job.Limits)
}

func (u unlimited) Unwrap() sandbox.Backend { return u.Backend }

// Start implements sandbox.Backend.
func (u unlimited) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	if c.RootImage != "" {
		return nil, errors.New("weakened sandboxes run on the host's tools")
	}
	u.forget(&c.Limits)
	return u.Backend.Start(ctx, c)
}
