package weak

import (
	"path/filepath"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// Arms are all weakened sandboxes. Those whose name begins with "runc" have runc in
// place of runsc; the others are gVisor's.
var Arms = slices.Concat(privileges, files, namespaces, limits, jobs, underRunc)

var privileges = []Arm{
	{
		Name: "cap-agent", What: "the job keeps the agent's capabilities, CAP_SYS_ADMIN among them", Needs: []Need{NeedShim},
		bundle: []edit{jobCaps(caps())},
	},
	{
		Name: "cap-net-raw", What: "the job keeps the agent's capabilities, and has CAP_NET_RAW", Needs: []Need{NeedShim},
		bundle: []edit{jobCaps(caps("CAP_NET_RAW"))}, args: []func([]string) []string{flag("net-raw", "true")},
	},
	{
		Name: "caps", What: "the job has all capabilities", Needs: []Need{NeedShim},
		bundle: []edit{jobCaps(allCaps)}, args: []func([]string) []string{flag("net-raw", "true")},
	},
	{
		Name: "root", What: "job and agent run as root", Needs: []Need{NeedShim},
		bundle: []edit{as(0, "agent-id", "job-id")},
	},
	{
		Name: "agent-exposed", What: "the agent has the job's uid, is dumpable, and the job has its capabilities", Needs: []Need{NeedShim},
		bundle: []edit{as(sandbox.JobUID, "agent-id", "dumpable", "caps")},
	},
	{
		Name: "agent-secret", What: "as agent-exposed, with a secret in the agent's environment", Needs: []Need{NeedShim, NeedSecret},
		bundle: []edit{as(sandbox.JobUID, "agent-id", "dumpable", "caps"), agentSecret},
	},
	{
		Name: "suid", What: "new privileges are allowed, and there is a setuid program", Needs: []Need{NeedSetuid},
		bundle: []edit{newPrivileges, setuidProgram}, args: []func([]string) []string{flag("allow-suid", "true")},
	},
}

var files = []Arm{
	{
		Name: "host-root-ro", What: "the host's file system is shown, read-only",
		bundle: []edit{show(func(Lab) string { return "/" }, HostRoot, "ro")},
	},
	{
		Name: "host-root-rw", What: "the host's file system is shown, writable",
		bundle: []edit{show(func(Lab) string { return "/" }, HostRoot, "rw")},
	},
	{
		Name: "device", What: "a device is the host's", Needs: []Need{NeedDevice}, bundle: []edit{hostDevice},
		args: []func([]string) []string{flag("character-device-policy", "passthrough")},
	},
	{
		Name: "uds", What: "the host's sockets can be connected to", Needs: []Need{NeedSocket},
		bundle: []edit{show(func(l Lab) string { return filepath.Dir(l.Socket) }, Sockets, "rw")},
		args:   []func([]string) []string{flag("host-uds", "all")},
	},
	{
		Name: "docker-socket", What: "a socket is where an engine has its own", Needs: []Need{NeedSocket},
		bundle: []edit{socketAt}, args: []func([]string) []string{flag("host-uds", "open")},
	},
	{
		Name: "leaked-fd", What: "a descriptor of the host's list of users is passed on", leak: "/etc/passwd",
		args: []func([]string) []string{behindRun("--pass-fd=3:9")},
	},
	{
		Name: "shared-dir", What: "all sandboxes write to one directory of the host", Needs: []Need{NeedDir},
		bundle: []edit{show(func(l Lab) string { return l.Dir }, Shared, "rw")},
		args:   []func([]string) []string{flag("file-access-mounts", "shared")},
	},
}

var namespaces = []Arm{
	{
		Name: "host-network", What: "the sandbox uses the host's network", Needs: []Need{NeedHost},
		bundle: []edit{inNetns(hostNetns)}, args: []func([]string) []string{flag("network", "host")},
	},
	{
		Name: "nic", What: "the sandbox has a network interface", Needs: []Need{NeedNetns},
		bundle: []edit{inNetns(labNetns)}, args: []func([]string) []string{flag("network", "sandbox")},
	},
}

var limits = []Arm{
	{Name: "no-memory-limit", What: "memory is not limited", limits: func(l *job.Limits) { l.Memory = 0 }},
	{Name: "no-pids-limit", What: "processes are not limited", limits: func(l *job.Limits) { l.Pids = 0 }},
	{Name: "no-cpu-limit", What: "processor time is not limited", limits: func(l *job.Limits) { l.CPUs = 0 }},
	{Name: "no-disk-limit", What: "disk space is not limited", limits: func(l *job.Limits) { l.Disk = 0 }},
}

var jobs = []Arm{
	{Name: "no-cleanup", What: "an ended sandbox is left as it is", keep: true},
	{Name: "no-wall-clock", What: "the wall clock is off", job: func(_ Lab, s *job.Spec) { s.Limits.Wall = 0 }},
	{Name: "no-output-limit", What: "output is not limited", job: func(_ Lab, s *job.Spec) { s.Limits.Output = 0 }},
	{
		Name: "env-secret", What: "a secret is in the job's environment", Needs: []Need{NeedSecret},
		job: func(l Lab, s *job.Spec) {
			for i := range s.Steps {
				s.Steps[i].Env = append(s.Steps[i].Env, "QUAVON_SANDBOX_SIGNING_KEY="+l.Secret)
			}
		},
	},
	{Name: "open-door", What: "the door is open in every step, to everywhere", job: openDoor, door: true},
}

// runc is an arm with runc in place of runsc.
func runc(name, what string, needs []Need, more ...edit) Arm {
	return Arm{
		Name: name, What: what, Needs: append([]Need{NeedRunc}, needs...),
		bundle: append([]edit{forRunc}, more...), args: []func([]string) []string{runcArgs},
	}
}

// runcLeak passes on a directory, which gVisor refuses to take.
var runcLeak = Arm{
	Name: "runc-leaked-fd", What: "runc, with a descriptor of the host's root directory", Needs: []Need{NeedRunc}, leak: "/",
	bundle: []edit{forRunc, filtered}, args: []func([]string) []string{runcArgs, behindRun("--preserve-fds=1")},
}

var shimmed = []Need{NeedShim}

var underRunc = []Arm{
	runc("runc", "runc in place of runsc", nil, filtered),
	runc("runc-no-seccomp", "runc without a filter of system calls", nil),
	runc("runc-caps", "runc, and the job has all capabilities", shimmed, jobCaps(allCaps)),
	runc("runc-root", "runc, and job and agent run as root with all capabilities", shimmed,
		as(0, "agent-id", "job-id", "caps"), func(_ Lab, s *specs.Spec) { grant(s, allCaps()) }),
	runc("runc-suid", "runc, with new privileges and a setuid program", []Need{NeedSetuid}, filtered, newPrivileges, setuidProgram),
	runc("runc-unmasked", "runc, with nothing of /proc and /sys masked", nil, filtered, unmasked),
	runc("runc-devices", "runc, with devices of the host", nil, filtered, devices),
	runc("runc-kernel", "runc as root, with /sys and the control groups writable", shimmed,
		as(0, "agent-id", "job-id", "caps"), func(_ Lab, s *specs.Spec) { grant(s, allCaps()) }, kernelWritable),
	runc("runc-host-pid", "runc in the host's pid namespace", nil, filtered, withoutNamespace(specs.PIDNamespace)),
	runc("runc-host-ipc", "runc in the host's IPC namespace", nil, filtered, withoutNamespace(specs.IPCNamespace)),
	runc("runc-host-network", "runc in the host's network", []Need{NeedHost}, filtered, inNetns(hostNetns)),
	runc("runc-cgroup", "runc, with the control groups writable for root", nil, filtered, groupsWritable),
	runcLeak,
	runc("runc-socket", "runc, with a socket of the host's", []Need{NeedSocket}, filtered,
		show(func(l Lab) string { return filepath.Dir(l.Socket) }, Sockets, "rw")),
}
