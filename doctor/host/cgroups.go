package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
)

const cgroupMount = "/sys/fs/cgroup"

var controllers = []string{"memory", "cpu", "pids"}

// cgroups tells the version by the file system's type, since both have the same
// path, and looks for the controllers that limits need.
func (c Config) cgroups(context.Context) doctor.Finding {
	top, err := c.Host.FileSystem(cgroupMount)
	if err != nil {
		return doctor.Unknown(err)
	}
	version := 1
	var missing []string
	if top.Magic == unix.CGROUP2_SUPER_MAGIC {
		version = 2
		if missing, err = c.missingV2(); err != nil {
			return doctor.Unknown(err)
		}
	} else {
		missing = c.missingV1()
	}
	if len(missing) > 0 {
		return doctor.Failed(fmt.Sprintf("control groups of version %d can't bound everything: limits would not hold", version), "",
			missing...)
	}
	user, err := c.Host.User()
	if err != nil {
		return doctor.Unknown(err)
	}
	what := fmt.Sprintf("version %d with %s", version, strings.Join(controllers, ", "))
	if user.UID != 0 {
		return doctor.Warned(what+", but not for a user without rights: sandboxes of theirs have no limits by the kernel",
			"run the runner as root, or with a systemd unit that has Delegate=yes")
	}
	return doctor.Passed(what)
}

func (c Config) missingV1() []string {
	var missing []string
	for _, name := range controllers {
		f, err := c.Host.FileSystem(cgroupMount + "/" + name)
		if err != nil || f.Magic != unix.CGROUP_SUPER_MAGIC {
			missing = append(missing, fmt.Sprintf("no %s hierarchy is mounted at %s/%[1]s", name, cgroupMount))
		}
	}
	return missing
}

// missingV2 looks at the top group: a controller must be offered and handed down
// there, or be possible to hand down, which only a top without processes of its own
// or the machine's own top allows.
func (c Config) missingV2() ([]string, error) {
	offered, err := c.Host.ReadFile(cgroupMount + "/cgroup.controllers")
	if err != nil {
		return nil, err
	}
	down, err := c.Host.ReadFile(cgroupMount + "/cgroup.subtree_control")
	if err != nil {
		return nil, err
	}
	procs, err := c.Host.ReadFile(cgroupMount + "/cgroup.procs")
	if err != nil {
		return nil, err
	}
	_, err = c.Host.Stat(cgroupMount + "/cgroup.type")
	inner := err == nil && len(strings.Fields(string(procs))) > 0
	var missing []string
	for _, name := range controllers {
		switch {
		case !slices.Contains(strings.Fields(string(offered)), name):
			missing = append(missing, "the controller "+name+" is not available")
		case inner && !slices.Contains(strings.Fields(string(down)), name):
			missing = append(missing, "the controller "+name+" is not handed down from "+cgroupMount+", which has processes")
		}
	}
	return missing, nil
}
