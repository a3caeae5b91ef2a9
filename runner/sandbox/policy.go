package sandbox

import (
	"fmt"
	"strings"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Policy is something a job may ask a backend to enforce.
type Policy string

// Policies a job can ask for.
const (
	PolicyMemory     Policy = "limit_memory"
	PolicyCPU        Policy = "limit_cpu"
	PolicyPids       Policy = "limit_pids"
	PolicyDisk       Policy = "limit_disk"
	PolicyRootHost   Policy = "root_host"
	PolicyRootImage  Policy = "root_image"
	PolicyMounts     Policy = "host_mounts"
	PolicyTTY        Policy = "tty"
	PolicyRegistries Policy = "network_registries"
)

// Policies is one row of the capability matrix: "" means enforced, anything
// else is why not. A policy that isn't listed is not enforced.
type Policies map[Policy]string

// Enforced is the matrix entry of a policy that holds.
const Enforced = ""

// Require lists the policies a job asks for.
func Require(s job.Spec) []Policy {
	var need []Policy
	add := func(p Policy, asked bool) {
		if asked {
			need = append(need, p)
		}
	}
	add(PolicyMemory, s.Limits.Memory != 0)
	add(PolicyCPU, s.Limits.CPUs != 0)
	add(PolicyPids, s.Limits.Pids != 0)
	add(PolicyDisk, s.Limits.Disk != 0)
	add(PolicyRootHost, s.Root.Kind == job.RootHost)
	add(PolicyRootImage, s.Root.Kind == job.RootImage)
	add(PolicyMounts, len(s.Mounts) > 0)
	for _, st := range s.Steps {
		add(PolicyTTY, st.TTY)
		add(PolicyRegistries, st.Network == job.NetworkRegistries)
	}
	return need
}

// Admit refuses a job that asks for a policy the backend does not enforce. There
// is no fallback: the error carries policy_unsupported and names each policy.
func Admit(b Backend, s job.Spec) error {
	have := b.Policies()
	var missing []string
	for _, p := range Require(s) {
		why, ok := have[p]
		switch {
		case !ok:
			missing = append(missing, string(p))
		case why != Enforced:
			missing = append(missing, fmt.Sprintf("%s (%s)", p, why))
		}
	}
	if missing == nil {
		return nil
	}
	return fault.New(
		fmt.Sprintf("backend %s can't enforce %s", b.Name(), strings.Join(missing, ", ")),
		"leave the option out, or choose a backend that enforces it: docs/backends.md has the matrix",
	).WithCode(string(job.ReasonPolicyUnsupported))
}
