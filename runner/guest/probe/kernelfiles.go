package probe

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maskedPaths are those that an OCI runtime hides, and more that tell of the host.
var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/interrupts", "/proc/kallsyms", "/proc/kmsg", "/proc/kpagecount", "/proc/modules",
	"/proc/slabinfo", "/proc/vmallocinfo", "/proc/zoneinfo", "/proc/iomem", "/sys/firmware", "/sys/devices/virtual/powercap",
	"/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security",
}

// MaskedPaths are the paths that C5-masked looks at.
func MaskedPaths() []string { return slices.Clone(maskedPaths) }

// maskedFiles says what of them there is: a file that can be read and isn't empty, or
// a directory with something in it.
func maskedFiles(c *Context) {
	for _, path := range maskedPaths {
		c.Try(path, func() (string, error) { return contents(path) })
	}
}

func contents(path string) (string, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if fi.IsDir() {
		n, err := names(path)
		return "dir " + n, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 256)
	n, err := f.Read(b)
	if n == 0 {
		var st unix.Stat_t
		_ = unix.Stat(path, &st)
		return fmt.Sprintf("empty %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), nil
	}
	return "file " + string(b[:n]), err
}

// settings are files by which a kernel is told what to do.
var settings = []string{
	"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/sysrq", "/proc/sys/vm/panic_on_oom",
	"/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/hotplug", "/proc/sysrq-trigger", "/proc/sys/net/ipv4/ip_forward",
	"/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/kernel/randomize_va_space", "/sys/kernel/uevent_helper",
	"/sys/module/kernel/parameters/panic", "/proc/irq/default_smp_affinity", "/proc/bus/pci", "/sys/kernel/mm/transparent_hugepage/enabled",
}

// kernelSettings opens them for writing, and never writes.
func kernelSettings(c *Context) {
	c.Try("control", func() (string, error) { return "", openWrite("/dev/null") })
	for _, path := range settings {
		c.TryErr(path, func() error { return openWrite(path) })
	}
}

// controlGroups looks for the files by which control groups are changed, and mounts
// their file systems.
func controlGroups(c *Context) {
	c.Try("writable", func() (string, error) {
		var found []string
		all, err := mounts()
		for _, m := range all {
			if strings.HasPrefix(m.fstype, "cgroup") {
				found = append(found, writableGroups(m.target)...)
			}
		}
		found = append(found, writableGroups("/sys/fs/cgroup")...)
		if err == nil && len(found) == 0 {
			err = unix.ENOENT
		}
		return strings.Join(found, " "), err
	})
	eachInChild("mount-v1", "mount-v2")(c)
	if name := c.Params[ParamGroup]; len(name) == 1 {
		c.Try("make", func() (string, error) { return makeGroups(name[0]) })
	}
}

// ParamGroup names a control group to make where one can be.
const ParamGroup = "group"

// makeGroups makes a group in each hierarchy, and leaves it to be seen from outside.
func makeGroups(name string) (made string, err error) {
	all, err := mounts()
	for _, m := range all {
		if strings.HasPrefix(m.fstype, "cgroup") {
			if e := os.Mkdir(filepath.Join(m.target, name), 0o755); e == nil {
				made += m.target + " "
			} else {
				err = e
			}
		}
	}
	if made != "" {
		return strings.TrimSpace(made), nil
	}
	return "", cmp.Or(err, error(unix.ENOENT))
}

// writableGroups are files of control groups below a directory that open for writing.
func writableGroups(dir string) []string {
	var found []string
	seen := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if seen++; seen > 2000 || len(found) > 8 {
			return filepath.SkipAll
		}
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what can't be listed is none of ours
		}
		switch d.Name() {
		case "release_agent", "notify_on_release", "cgroup.procs", "tasks", "devices.allow", "cgroup.subtree_control":
			if openWrite(path) == nil {
				found = append(found, path)
			}
		}
		return nil
	})
	return found
}

func controlGroup(c *Context, args []string) (string, error) {
	fstype := map[string]string{"mount-v1": "cgroup", "mount-v2": "cgroup2"}[args[0]]
	data := map[string]string{"mount-v1": "rdma"}[args[0]]
	return "", c.withDir(args[0], func(path string) error { return mountAway(fstype, path, fstype, 0, data) })
}
