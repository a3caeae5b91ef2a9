package smoke

import "slices"

// Names of weakened sandboxes that break the same probes.
var (
	// keptCaps leave the job the agent's capabilities.
	keptCaps = []string{"cap-agent", "cap-net-raw", "caps", "agent-exposed", "agent-secret"}
	// privileged give the job all capabilities of the host's kernel.
	privileged = []string{"runc-caps", "runc-root", "runc-kernel"}
	// unfiltered have no filter of system calls before the host's kernel.
	unfiltered = also(privileged, "runc-no-seccomp")
	// underRunc share the host's kernel.
	underRunc = also(unfiltered, "runc", "runc-suid", "runc-unmasked", "runc-devices", "runc-host-pid", "runc-host-ipc",
		"runc-host-network", "runc-leaked-fd", "runc-socket", "runc-cgroup")
	// shown have a mount besides: what they show, or a program of theirs.
	shown = []string{
		"uds", "docker-socket", "device", "shared-dir", "host-root-ro", "host-root-rw", "suid", "root",
		"runc-suid", "runc-socket", "runc-cgroup",
	}
)

func also(list []string, more ...string) []string { return slices.Concat(list, more) }
