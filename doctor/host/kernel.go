package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
)

// userns really makes a user namespace: gVisor starts its parts in ones.
func (c Config) userns(ctx context.Context) doctor.Finding {
	_, err := c.Host.Run(ctx, "unshare", "--user", "--map-root-user", "true")
	switch {
	case ctx.Err() != nil:
		return doctor.Unknown(context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Unknown(err)
	case err == nil:
		return doctor.Passed("a user namespace was made, with a map of its users")
	case c.sysctl("user/max_user_namespaces") == "0":
		return doctor.Failed("user.max_user_namespaces is 0: nobody can make user namespaces, root included",
			"run `sysctl -w user.max_user_namespaces=15000`, and take the other value out of /etc/sysctl.d")
	case c.sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return doctor.Failed("AppArmor keeps users without rights from user namespaces, as Ubuntu 24.04 does",
			"run as root, or give quavon and runsc an AppArmor profile with `userns,`; leave the sysctl on, it protects the host")
	case c.sysctl("kernel/unprivileged_userns_clone") == "0":
		return doctor.Failed("kernel.unprivileged_userns_clone is 0: only root can make user namespaces", "run as root")
	}
	return doctor.Failed("no user namespace can be made here", "", err.Error())
}

// sysctl is a kernel's setting, "" for one that isn't there.
func (c Config) sysctl(name string) string {
	data, _ := c.Host.ReadFile("/proc/sys/" + name) // kernels have them or not
	return strings.TrimSpace(string(data))
}

// threads asks whether two sandboxes may share a core at the same time, which is how
// the holes of QD906 that mitigations leave open are used.
func (c Config) threads(context.Context) doctor.Finding {
	data, err := c.Host.ReadFile("/sys/devices/system/cpu/smt/active")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Skipped("the kernel doesn't say whether cores have several threads")
	case err != nil:
		return doctor.Unknown(err)
	}
	switch active := strings.TrimSpace(string(data)); active {
	case "0":
		return doctor.Passed("each core runs one thread")
	case "1":
		return doctor.Failed("hyper-threading is on: two sandboxes can run on one core at the same time", "")
	default:
		return doctor.Unknown(fmt.Errorf("smt/active is %q, which isn't known here", active))
	}
}

// devices are what backends with virtual machines open, and the modules behind them.
var devices = map[string]string{"/dev/net/tun": "tun", "/dev/vhost-vsock": "vhost_vsock"}

// modules really opens the devices: a node may be there without its module.
func (c Config) modules(context.Context) doctor.Finding {
	var missing, modules []string
	for _, dev := range sortedKeys(devices) {
		err := c.Host.Open(dev)
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
			missing, modules = append(missing, dev+": "+err.Error()), append(modules, devices[dev])
		case errors.Is(err, fs.ErrPermission):
			return doctor.Skipped("this user may not open " + dev)
		default:
			return doctor.Unknown(err)
		}
	}
	data, err := c.Host.ReadFile("/proc/filesystems")
	if err != nil {
		return doctor.Unknown(err)
	}
	for _, name := range []string{"overlay", "ext4"} {
		if !strings.Contains(string(data), "\t"+name+"\n") {
			missing, modules = append(missing, "the kernel knows no file system "+name), append(modules, name)
		}
	}
	if len(missing) > 0 {
		return doctor.Failed("virtual machines, or images on disk, need parts of the kernel that aren't there; runsc needs none of them",
			"run `modprobe -a "+strings.Join(modules, " ")+"`, and name them in /etc/modules-load.d/quavon.conf", missing...)
	}
	return doctor.Passed("tun and vsock open, overlay and ext4 are known")
}

// microcode tells the processor's revision of it and the package that brings newer;
// "" when the processor doesn't say, as in some virtual machines.
func (c Config) microcode() (revision, pkg string) {
	pkg = map[string]string{"GenuineIntel": "intel-microcode", "AuthenticAMD": "amd64-microcode"}[c.cpuinfo("vendor_id")]
	return c.cpuinfo("microcode"), pkg
}

// cpuinfo is what the first processor says under a name, "" for nothing.
func (c Config) cpuinfo(name string) string {
	data, _ := c.Host.ReadFile("/proc/cpuinfo") // only adds to a message
	for line := range strings.Lines(string(data)) {
		if n, value, _ := strings.Cut(line, ":"); strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
