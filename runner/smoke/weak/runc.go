package weak

import (
	"os"
	"path/filepath"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// groups is where the backend makes its control groups.
const groups = "quavon"

// runcArgs leaves of runsc's command line what runc knows.
func runcArgs(args []string) []string {
	var out []string
	for i, a := range args {
		if a == "run" {
			return append(out, args[i:]...)
		}
		if strings.HasPrefix(a, "--root=") {
			out = append(out, a)
		}
	}
	return out
}

// Docker's masked and read-only paths.
var (
	masked = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// forRunc turns runsc's bundle into runc's, as Docker would have it but for its
// profile of system calls.
func forRunc(_ Lab, s *specs.Spec) {
	scratch := scratchOf(s)
	id := filepath.Base(filepath.Dir(scratch.Source))
	scratch.Type, scratch.Source = "tmpfs", "tmpfs"
	scratch.Options = strings.Split(s.Annotations["dev.gvisor.spec.mount.scratch.options"], ",")
	s.Annotations = nil
	// Stay in the group that the backend has made.
	s.Linux.CgroupsPath = filepath.Join("/", groups, id)
	s.Process.Capabilities.Bounding = s.Process.Capabilities.Permitted
	s.Mounts = append(s.Mounts,
		specs.Mount{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536"}},
		specs.Mount{
			Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666"},
		},
		specs.Mount{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		specs.Mount{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}})
	s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = masked, readOnly
}

// denied are calls that Docker's profile refuses without capabilities.
var denied = []string{
	"add_key", "bpf", "io_uring_enter", "io_uring_register", "io_uring_setup", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
	"move_pages", "name_to_handle_at", "open_by_handle_at", "perf_event_open", "pivot_root", "process_vm_readv", "process_vm_writev",
	"ptrace", "request_key", "setns", "unshare", "userfaultfd",
}

// filtered adds a filter of system calls like Docker's.
func filtered(_ Lab, s *specs.Spec) {
	eperm := uint(1)
	s.Linux.Seccomp = &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Architectures: []specs.Arch{specs.ArchX86_64, specs.ArchX86, specs.ArchAARCH64, specs.ArchARM},
		Syscalls:      []specs.LinuxSyscall{{Names: denied, Action: specs.ActErrno, ErrnoRet: &eperm}},
	}
}

func unmasked(_ Lab, s *specs.Spec) { s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil }

// devices are nodes of the host's devices: the kernel's log, virtual machines, a
// loop device.
func devices(_ Lab, s *specs.Spec) {
	mode, none := os.FileMode(0o666), uint32(0)
	for _, d := range []specs.LinuxDevice{
		{Path: "/dev/kmsg", Type: "c", Major: 1, Minor: 11},
		{Path: "/dev/kvm", Type: "c", Major: 10, Minor: 232},
		{Path: "/dev/loop0", Type: "b", Major: 7, Minor: 0},
	} {
		d.FileMode, d.UID, d.GID = &mode, &none, &none
		s.Linux.Devices = append(s.Linux.Devices, d)
	}
}

// kernelWritable shows the kernel's own files, for writing.
func kernelWritable(_ Lab, s *specs.Spec) {
	for i := range s.Mounts {
		if s.Mounts[i].Destination == "/sys" {
			s.Mounts[i].Options = []string{"nosuid", "noexec", "nodev"}
		}
	}
	groupsWritable(Lab{}, s)
	unmasked(Lab{}, s)
}

// groupsWritable shows the control groups, for writing.
func groupsWritable(_ Lab, s *specs.Spec) {
	s.Mounts = append(s.Mounts, specs.Mount{
		Destination: "/sys/fs/cgroup", Type: "bind", Source: "/sys/fs/cgroup", Options: []string{"rbind", "rw"},
	})
}
