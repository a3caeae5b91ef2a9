package weak

import (
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

// Places at which arms show something, all below a file system of their own.
const (
	base = "/mnt"
	// HostRoot has the host's file system, Shared a directory of it.
	HostRoot = base + "/host"
	Shared   = base + "/shared"
	// Sockets has the directory of the host's socket, Setuid a program of root's
	// with the setuid bit.
	Sockets = base + "/sockets"
	Setuid  = base + "/setuid"
	shimDir = base + "/shim"
)

// allCaps are the capabilities of a privileged container, as far as this host may
// give them.
func allCaps() []string {
	return slices.DeleteFunc(slices.Clone(capNames), func(name string) bool {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(slices.Index(capNames, name)), 0, 0, 0)
		return err != nil || has == 0
	})
}

// capNames are capabilities by their numbers.
var capNames = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL
	CAP_SETGID CAP_SETUID CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN
	CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT
	CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE
	CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM
	CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)

// show attaches a place of the host's below base.
func show(source func(Lab) string, target string, options ...string) edit {
	return func(l Lab, s *specs.Spec) {
		room(s)
		s.Mounts = append(s.Mounts, specs.Mount{
			Destination: target, Type: "bind", Source: source(l), Options: append([]string{"rbind"}, options...),
		})
	}
}

// room makes base a file system in which mount points can be made.
func room(s *specs.Spec) {
	if slices.ContainsFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == base }) {
		return
	}
	s.Mounts = append(s.Mounts, specs.Mount{
		Destination: base, Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=0755", "size=65536"},
	})
}

// fake starts the agent behind the shim: what the words name only seems to happen.
func fake(words ...string) edit {
	dir := show(func(l Lab) string { return filepath.Dir(l.Shim) }, shimDir, "ro")
	return func(l Lab, s *specs.Spec) {
		dir(l, s)
		shim := filepath.Join(shimDir, filepath.Base(l.Shim))
		s.Process.Args = append([]string{shim, strings.Join(words, ",")}, s.Process.Args...)
	}
}

// jobCaps gives a job capabilities, since the agent can't take them from it.
func jobCaps(caps func() []string) edit {
	shim := fake("caps")
	return func(l Lab, s *specs.Spec) {
		shim(l, s)
		grant(s, caps())
	}
}

// grant gives capabilities to the sandbox's first process and what it starts.
func grant(s *specs.Spec, caps []string) {
	c := s.Process.Capabilities
	have := slices.Clone(c.Permitted)
	for _, name := range caps {
		if !slices.Contains(have, name) {
			have = append(have, name)
		}
	}
	// The shim hands on what is ambient only, so the job has the agent's as well.
	c.Effective, c.Permitted, c.Inheritable, c.Bounding, c.Ambient = have, have, have, have, have
}

// as runs the agent, or agent and job, as another user.
func as(uid uint32, words ...string) edit {
	shim := fake(words...)
	return func(l Lab, s *specs.Spec) {
		shim(l, s)
		s.Process.User = specs.User{UID: uid, GID: uid}
	}
}

// withoutNamespace leaves the sandbox in the host's.
func withoutNamespace(t specs.LinuxNamespaceType) edit {
	return func(_ Lab, s *specs.Spec) {
		s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == t })
	}
}

// inNetns puts the sandbox into a network.
func inNetns(path func(Lab) string) edit {
	return func(l Lab, s *specs.Spec) {
		for i := range s.Linux.Namespaces {
			if n := &s.Linux.Namespaces[i]; n.Type == specs.NetworkNamespace {
				n.Path = path(l)
			}
		}
	}
}

func labNetns(l Lab) string  { return l.Netns }
func hostNetns(l Lab) string { return l.HostNetns }

func newPrivileges(_ Lab, s *specs.Spec) { s.Process.NoNewPrivileges = false }

// socketAt shows the lab's socket under the name that an engine's has.
func socketAt(l Lab, s *specs.Spec) {
	s.Mounts = append(s.Mounts,
		specs.Mount{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=0755", "size=4096"}},
		specs.Mount{Destination: "/run/docker.sock", Type: "bind", Source: l.Socket, Options: []string{"rbind", "ro"}})
}

// agentSecret puts the secret into the agent's environment.
func agentSecret(l Lab, s *specs.Spec) {
	s.Process.Env = append(s.Process.Env, "QUAVON_SANDBOX_SIGNING_KEY="+l.Secret)
}

// flag replaces one of runsc's flags, or adds it.
func flag(name, value string) func([]string) []string {
	return func(args []string) []string {
		prefix := "--" + name + "="
		if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, prefix) }); i >= 0 {
			args[i] = prefix + value
			return args
		}
		return append([]string{prefix + value}, args...)
	}
}

// behindRun adds an argument to the subcommand.
func behindRun(arg string) func([]string) []string {
	return func(args []string) []string {
		return slices.Insert(args, slices.Index(args, "run")+1, arg)
	}
}

// scratchOf finds the scratch file system.
func scratchOf(s *specs.Spec) *specs.Mount {
	return &s.Mounts[slices.IndexFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == sandbox.ScratchDir })]
}

// setuidProgram shows the lab's setuid program, which must work.
func setuidProgram(l Lab, s *specs.Spec) {
	show(func(l Lab) string { return filepath.Dir(l.Setuid) }, Setuid, "ro", "suid")(l, s)
	// What the program may become is bounded by what the agent has.
	s.Process.Capabilities.Bounding = s.Process.Capabilities.Permitted
}

// hostDevice shows a device of the host's.
func hostDevice(l Lab, s *specs.Spec) {
	s.Mounts = append(s.Mounts, specs.Mount{
		Destination: "/dev/loop-control", Type: "bind", Source: l.Device, Options: []string{"rbind", "rw"},
	})
}

func caps(names ...string) func() []string { return func() []string { return names } }
