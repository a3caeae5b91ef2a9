package smoke

import (
	"fmt"
	"slices"
	"strings"
)

func deviceEntries() []Entry {
	return []Entry{
		{
			ID: "D1-inventory", Group: GroupDevice, Quick: true, Title: "there are no devices but harmless ones",
			Control: "/dev/null must be among them and open", Weak: []string{"device", "runc-devices"}, Inside: []string{"D1-inventory"},
			Judge: knownDevices,
		},
		{
			ID: "D2-mknod", Group: GroupDevice, Quick: true, Title: "a job can't make device nodes",
			Control: "files can be made in the same place", Weak: also(privileged, "caps"), Inside: []string{"D2-mknod"}, Plant: plantDisk,
			Judge: expects(map[Family][]Expect{
				GVisor: each("D2-mknod", []string{"EPERM"}, "null", "kvm", "mem", "kmsg", "disk-0", "disk-1"),
				Shared: each("D2-mknod", []string{"EPERM"}, "null", "kvm", "mem", "kmsg", "disk-0", "disk-1"),
			}),
		},
		{
			ID: "D3-vsock", Group: GroupDevice, Quick: true, Title: "there is no way to a machine below",
			Control: "sockets of the usual kinds can be made (C3)", Weak: underRunc, Inside: []string{"D3-vsock"},
			Judge: expects(map[Family][]Expect{
				GVisor: append(each("D3-vsock", []string{"EAFNOSUPPORT"}, "socket", "datagram", "connect-0", "connect-1", "connect-2"),
					each("D3-vsock", []string{"ENOENT"}, "device")...),
				Shared: append(each("D3-vsock", []string{"EPERM", "EAFNOSUPPORT"}, "socket", "datagram"),
					each("D3-vsock", []string{"ENOENT"}, "device")...),
			}),
		},
	}
}

// harmless are the devices that every sandbox may have, by kind and number.
// gVisor's /dev/fuse and /dev/net/tun are its kernel's own.
var (
	harmless       = []string{"c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2"}
	harmlessGVisor = []string{"c 10:229", "c 10:200"}
)

func knownDevices(c *Case) Outcome {
	if l := c.Find("D1-inventory", "control"); l == nil || l.Errno != "" {
		return Outcome{CouldNotRun, "/dev/null doesn't open"}
	}
	known := harmless
	if c.Bench.Family() == GVisor {
		known = append(slices.Clone(known), harmlessGVisor...)
	}
	var broken []string
	null := false
	for _, l := range c.Lines {
		f := strings.Fields(l.Answer)
		if !strings.HasPrefix(l.Sub, "node-") || len(f) < 4 {
			continue
		}
		number := f[0] + " " + f[1]
		null = null || number == "c 1:3"
		terminal := f[0] == "c" && strings.HasPrefix(f[1], "136:") && strings.HasPrefix(f[2], "/dev/pts/")
		if !slices.Contains(known, number) && !terminal {
			broken = append(broken, fmt.Sprintf("%s is there (%s, %s)", f[2], number, f[3]))
		}
	}
	if !null {
		return Outcome{CouldNotRun, "the list of devices isn't whole"}
	}
	return verdict(broken, nil)
}
