package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
)

func (c Config) machine() []*doctor.Check {
	return []*doctor.Check{
		{
			Code: "QD901", Name: "platform", Title: "the system is Linux on a processor that sandboxes run on", Group: groupHost,
			Severity: doctor.Failure, DefaultFix: "use a Linux machine with an x86-64 or ARM64 processor", Run: c.platform,
		},
		{
			Code: "QD902", Name: "kernel", Title: "the kernel is new enough", Group: groupHost, Needs: []string{"QD901"},
			Severity: doctor.Failure, DefaultFix: "upgrade the kernel: 5.6 at least, 6.1 or newer is better", Run: c.kernel,
		},
		{
			Code: "QD903", Name: "cgroups", Title: "control groups can bound sandboxes", Group: groupHost, Needs: []string{"QD901"},
			Severity: doctor.Failure, DefaultFix: "boot with systemd.unified_cgroup_hierarchy=1 and without cgroup_disable=",
			Run: c.cgroups,
		},
		{
			Code: "QD904", Name: "ptrace", Title: "the kernel lets gVisor trace its own processes", Group: groupHost,
			Needs: []string{"QD901"}, Severity: doctor.Failure,
			DefaultFix: "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.d and reboot: it can't be lowered before", Run: c.ptrace,
		},
		{
			Code: "QD905", Name: "clock", Title: "the clock is right", Group: groupHost, Severity: doctor.Failure,
			DefaultFix: "have the clock kept: `timedatectl set-ntp true`, or `apt install chrony`", Run: c.clock,
		},
		{
			Code: "QD906", Name: "processor", Title: "the kernel knows no open hole of the processor", Group: groupHost,
			Needs: []string{"QD901"}, Severity: doctor.Warning,
			DefaultFix: "install the processor's microcode and the newest kernel; boot with mitigations=auto,nosmt", Run: c.processor,
		},
		{
			Code: "QD907", Name: "namespaces", Title: "user namespaces can be made", Group: groupHost, Needs: []string{"QD901"},
			Severity: doctor.Failure, DefaultFix: "run as root, on the host instead of in a container", Run: c.userns,
		},
		{
			Code: "QD908", Name: "hyper-threading", Title: "no two sandboxes share a core", Group: groupHost, Needs: []string{"QD901"},
			Severity: doctor.Warning, DefaultFix: "boot with nosmt, or `echo off >/sys/devices/system/cpu/smt/control`", Run: c.threads,
		},
		{
			Code: "QD909", Name: "modules", Title: "the kernel has what virtual machines and images on disk need", Group: groupHost,
			Needs: []string{"QD901"}, Severity: doctor.Warning, DefaultFix: "load them: `modprobe NAME`", Run: c.modules,
		},
	}
}

func (c Config) platform(context.Context) doctor.Finding {
	k, err := c.Host.Kernel()
	switch {
	case err != nil:
		return doctor.Unknown(err)
	case k.System != "Linux":
		return doctor.Failed("the system is "+k.System+", sandboxes need Linux", "")
	case k.Machine != "x86_64" && k.Machine != "aarch64":
		return doctor.Failed("no sandbox runs on "+k.Machine, "")
	case k.PageSize != 4096:
		return doctor.Warned(fmt.Sprintf("%s with pages of %d bytes, on which gVisor isn't tested", k.Machine, k.PageSize),
			"boot a kernel with pages of 4096 bytes")
	}
	return doctor.Passed(fmt.Sprintf("Linux on %s, pages of %d bytes", k.Machine, k.PageSize))
}

func (c Config) kernel(context.Context) doctor.Finding {
	k, err := c.Host.Kernel()
	if err != nil {
		return doctor.Unknown(err)
	}
	major, minor, ok := release(k.Release)
	switch {
	case !ok:
		return doctor.Unknown(fmt.Errorf("the kernel's release %q has no number", k.Release))
	case older(major, minor, 5, 6):
		return doctor.Failed(fmt.Sprintf("Linux %s is too old: gVisor needs 5.6 or newer", k.Release), "")
	case strings.Contains(strings.ToLower(k.Release), "microsoft"):
		return doctor.Warned("Linux "+k.Release+" is WSL's, on which gVisor is known to fail in ways only a run shows",
			"`quavon doctor --local --only QD952` shows whether it does; in production, use a Linux machine")
	case older(major, minor, 6, 1):
		return doctor.Warned("Linux "+k.Release+" works, but virtual machines want 6.1 or newer", "")
	}
	return doctor.Passed("Linux " + k.Release)
}

// release reads the first two numbers of a kernel's release.
func release(s string) (major, minor int, ok bool) {
	a, rest, found := strings.Cut(s, ".")
	b := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	major, err1 := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	return major, minor, found && err1 == nil && err2 == nil
}

func older(major, minor, thanMajor, thanMinor int) bool {
	return major < thanMajor || major == thanMajor && minor < thanMinor
}

func (c Config) ptrace(context.Context) doctor.Finding {
	data, err := c.Host.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	switch value := strings.TrimSpace(string(data)); {
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Passed("the kernel has no Yama, so nothing restricts tracing")
	case err != nil:
		return doctor.Unknown(err)
	case value == "3":
		return doctor.Failed("kernel.yama.ptrace_scope is 3: gVisor would end with \"cannot read client sync file: EOF\"", "")
	case value != "0" && value != "1" && value != "2":
		return doctor.Unknown(fmt.Errorf("kernel.yama.ptrace_scope is %q, which isn't known here", value))
	default:
		return doctor.Passed("kernel.yama.ptrace_scope is " + value)
	}
}

// oldestNow is before any build of this program: a clock that shows less is wrong.
var oldestNow = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func (c Config) clock(context.Context) doctor.Finding {
	clock, err := c.Host.Clock()
	shown := clock.Now.UTC().Format(time.RFC3339)
	switch {
	case err != nil:
		return doctor.Unknown(err)
	case clock.Now.Before(oldestNow):
		return doctor.Failed("the clock shows "+shown+", before this program was written: signatures and leases would be wrong", "")
	case !clock.Synchronised:
		return doctor.Warned("the clock shows "+shown+", and nothing keeps it synchronised", "")
	}
	return doctor.Passed("the clock shows " + shown + " and is synchronised")
}

const vulnerabilities = "/sys/devices/system/cpu/vulnerabilities"

// processor reads what the kernel says of each known hole; a hole that needs
// hyper-threading off is named as vulnerable there too.
func (c Config) processor(context.Context) doctor.Finding {
	names, err := c.Host.ReadDir(vulnerabilities)
	if err != nil {
		return doctor.Unknown(err)
	}
	var open []string
	for _, name := range names {
		data, err := c.Host.ReadFile(vulnerabilities + "/" + name)
		if err != nil {
			return doctor.Unknown(err)
		}
		if s := strings.TrimSpace(string(data)); strings.Contains(strings.ToLower(s), "vulnerable") {
			open = append(open, name+": "+s)
		}
	}
	revision, pkg := c.microcode()
	if len(open) > 0 {
		fix := ""
		if pkg != "" {
			fix = "run `apt install " + pkg + "` (in a virtual machine, on the host below), use the newest kernel, boot with " +
				"mitigations=auto,nosmt"
		}
		if revision != "" {
			open = append(open, "microcode "+revision)
		}
		return doctor.Failed("the processor has open holes that sandboxes could use against each other", fix, open...)
	}
	return doctor.Passed(fmt.Sprintf("the kernel knows %d holes, and none is open", len(names)))
}
