package docker

import (
	"slices"
	"strings"
)

// gvisorFlag is what is known of one of gVisor's flags: whether it stands without a
// value, and which values keep the sandbox as strong as it is; nil for all.
type gvisorFlag struct {
	boolean bool
	safe    []string
}

var (
	always = gvisorFlag{}
	onOff  = gvisorFlag{boolean: true}
	off    = gvisorFlag{boolean: true, safe: []string{"false", "0"}}
)

func oneOf(safe ...string) gvisorFlag { return gvisorFlag{safe: safe} }

// gvisorFlags is an allow list: a value that isn't safe weakens, a flag that isn't
// here is unknown.
var gvisorFlags = map[string]gvisorFlag{
	"debug": onOff, "debug-log": always, "debug-log-format": always, "debug-command": always, "log": always,
	"log-format": always, "log-packets": onOff, "panic-log": always, "strace": onOff, "strace-syscalls": always,
	"strace-log-size": always, "strace-event": onOff, "systemd-cgroup": onOff, "oci-seccomp": onOff,
	"watchdog-action": always, "dcache": always, "overlay2": always, "root": always, "num-network-channels": always,
	"gso": onOff, "software-gso": onOff, "tx-checksum-offload": onOff, "rx-checksum-offload": onOff, "directfs": onOff,

	"platform": oneOf("systrap", "kvm"), "network": oneOf("sandbox", "none"), "host-uds": oneOf("none"),
	"host-fifo": oneOf("none"), "host-settings": oneOf("ignore", "check"), "character-device-policy": oneOf("emulated-only"),
	"file-access": oneOf("exclusive", "shared"), "file-access-mounts": oneOf("exclusive", "shared"),
	"net-raw": off, "ignore-cgroups": off, "allow-flag-override": off, "allow-suid": off, "profile": off,
	"allow-packet-socket-write": off, "fsgofer-host-uds": off, "TESTONLY-unsafe-nonroot": off, "nvproxy": off,
	"tpuproxy": off, "rdmaproxy": off, "rootless": off,
}

// JudgeArgs sorts the arguments with which gVisor is registered: weak are those that
// open the sandbox or switch limits off, unknown those that nobody has judged. It
// reads them as gVisor does, with one dash or two, and values behind "=" or apart.
func JudgeArgs(args []string) (weak, unknown []string) {
	for i := 0; i < len(args); i++ {
		shown := args[i]
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(shown, "-"), "-"), "=")
		f, known := gvisorFlags[name]
		switch {
		case len(shown) < 2 || shown[0] != '-' || name == "":
			// gVisor stops reading flags here.
			return weak, append(unknown, args[i:]...)
		case !known:
			unknown = append(unknown, shown)
			continue
		case !given && f.boolean:
			value = "true"
		case !given && i+1 < len(args):
			i++
			value = args[i]
			shown += " " + value
		}
		if f.safe != nil && !slices.Contains(f.safe, value) {
			weak = append(weak, shown)
		}
	}
	return weak, unknown
}
