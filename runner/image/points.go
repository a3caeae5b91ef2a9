package image

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

const hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"

// points is what every root has: where backends and the agent mount, and files
// that images leave to the runtime.
var points = []flatten.Point{
	dir("/proc", 0o555), dir("/sys", 0o555), dir("/dev", 0o755), dir("/run", 0o755),
	dir("/tmp", 0o1777), dir("/var/tmp", 0o1777), dir("/cache", 0o755), dir(job.WorkspaceDir, 0o755),
	{Path: sandbox.GuestDir, Mode: unix.S_IFDIR | 0o700, UID: sandbox.AgentUID, GID: sandbox.AgentUID, Own: true},
	{Path: "/home/quavon", Mode: unix.S_IFDIR | 0o700, UID: sandbox.JobUID, GID: sandbox.JobUID},
	{Path: "/etc/hosts", Mode: unix.S_IFREG | 0o644, Body: hosts},
	{Path: "/etc/hostname", Mode: unix.S_IFREG | 0o644, Body: "quavon\n"},
}

// Points is what is made in a root where it is missing, for backends that have images of
// their own. The agent's directory is theirs to make.
func Points() []flatten.Point {
	return slices.DeleteFunc(slices.Clone(points), func(p flatten.Point) bool { return p.Own })
}

func dir(path string, mode uint16) flatten.Point {
	return flatten.Point{Path: path, Mode: unix.S_IFDIR | mode}
}
