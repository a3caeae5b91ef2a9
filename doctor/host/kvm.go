package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
)

func (c Config) kvm() []*doctor.Check {
	return []*doctor.Check{{
		Code: "QD910", Name: "kvm", Title: "a virtual machine can be made", Group: groupHost, Needs: []string{"QD901"},
		Severity: doctor.Warning, DefaultFix: "load kvm_intel or kvm_amd, and switch virtualisation on in the firmware", Run: c.makeVM,
	}}
}

// makeVM really makes one: the device may open and still be of no use. No backend
// here needs it yet, so nothing of it is more than a warning.
func (c Config) makeVM(context.Context) doctor.Finding {
	step, err := c.Host.CreateVM()
	switch {
	case err == nil:
		return c.nested()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return doctor.Failed("this host can't make virtual machines; the backends runsc and docker-runsc need none", c.loadKVM(),
			fmt.Sprintf("%s /dev/kvm: %v", step, err))
	case step == "open" && errors.Is(err, unix.EACCES):
		return c.kvmDenied()
	case errors.Is(err, unix.EBUSY):
		return c.kvmBusy()
	case step == "version":
		return doctor.Failed("/dev/kvm isn't the KVM that is known here: "+err.Error(), "")
	}
	return doctor.Unknown(fmt.Errorf("%s of /dev/kvm: %w", step, err))
}

// loadKVM names the module for this processor, "" where that isn't known.
func (c Config) loadKVM() string {
	module := map[string]string{"GenuineIntel": "kvm_intel", "AuthenticAMD": "kvm_amd"}[c.cpuinfo("vendor_id")]
	if module == "" {
		return ""
	}
	return "run `modprobe " + module + "`; where it isn't to be had, switch virtualisation on in the firmware, or in the machine below"
}

func (c Config) nested() doctor.Finding {
	data, err := c.Host.ReadFile("/proc/cpuinfo")
	if err != nil {
		return doctor.Unknown(err)
	}
	for line := range strings.Lines(string(data)) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" &&
			slices.Contains(strings.Fields(flags), "hypervisor") {
			return doctor.Warned("a virtual machine can be made, but nested in another: not for production",
				"use a machine of your own for virtual machines in production")
		}
	}
	return doctor.Passed("an empty virtual machine was made and dropped")
}

// kvmDenied tells the three kinds of a refused open apart.
func (c Config) kvmDenied() doctor.Finding {
	info, err := c.Host.Stat("/dev/kvm")
	if err != nil {
		return doctor.Unknown(err)
	}
	user, err := c.Host.User()
	if err != nil {
		return doctor.Unknown(err)
	}
	gid := int(info.GID)
	group := c.groupName(gid)
	switch {
	case slices.Contains(user.Groups, gid):
		return doctor.Failed(fmt.Sprintf("the group of /dev/kvm may not open it (mode %04o)", info.Mode.Perm()),
			"run `chmod g+rw /dev/kvm`")
	case group == "":
		return doctor.Failed(fmt.Sprintf("/dev/kvm belongs to group %d, which has no name here", gid),
			fmt.Sprintf("run `groupadd -g %d kvm && usermod -aG kvm %s`, then log in again", gid, user.Name))
	case slices.Contains(user.MemberOf, gid):
		return doctor.Failed(fmt.Sprintf("%s is a member of %s, but this session began before", user.Name, group), "log out and in again")
	}
	return doctor.Failed(fmt.Sprintf("%s is no member of the group %s, which /dev/kvm belongs to", user.Name, group),
		fmt.Sprintf("run `usermod -aG %s %s`, then log in again", group, user.Name))
}

// groupName is a group's in the group file, "" for none.
func (c Config) groupName(gid int) string {
	data, err := c.Host.ReadFile("/etc/group")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(line, ":"); len(f) >= 3 && f[2] == fmt.Sprint(gid) {
			return f[0]
		}
	}
	return ""
}

// kvmBusy names what else uses the processor's virtualisation.
func (c Config) kvmBusy() doctor.Finding {
	modules, err := c.Host.ReadFile("/proc/modules")
	if err != nil {
		return doctor.Unknown(err)
	}
	for line := range strings.Lines(string(modules)) {
		switch name, _, _ := strings.Cut(line, " "); name {
		case "vboxdrv", "vmmon":
			holder := map[string]string{"vboxdrv": "VirtualBox", "vmmon": "VMware"}[name]
			return doctor.Failed(holder+" (module "+name+") holds the processor's virtualisation",
				"stop its machines, then `rmmod "+name+"`")
		}
	}
	return doctor.Failed("something else holds the processor's virtualisation; neither VirtualBox's nor VMware's module is loaded",
		"stop other hypervisors")
}
