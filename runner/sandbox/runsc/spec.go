package runsc

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/quavon/quavon/runner/sandbox"
)

// Files and directories of a sandbox's slot.
const (
	bundleDir   = "bundle"
	runtimeRoot = "runsc"
	scratchDir  = "scratch"
	lowerDir    = "lower"
	emptyDir    = "empty"
	meminfoFile = "meminfo"
	panicFile   = "panic"
)

// agentCaps are what the agent needs to arrange the job's view, start commands
// as other users, and handle files of any owner. None of them reach a job.
var agentCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
	"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT",
}

// pageSize is what sizes of gVisor's tmpfs are rounded to.
const pageSize = 4096

// bundle describes a sandbox to runsc. sources are the host paths of the
// config's mounts.
func (s *box) bundle(c sandbox.Config, sources []string) *specs.Spec {
	spec := &specs.Spec{
		Version:     specs.Version,
		Hostname:    "quavon",
		Root:        &specs.Root{Path: c.RootDir, Readonly: true},
		Process:     s.process(c.MountOwner()),
		Mounts:      mounts(c, sources, s.slot.Path(scratchDir)),
		Annotations: scratchAnnotations(s.slot.Path(scratchDir), c.Limits.Disk),
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace},
			{Type: specs.MountNamespace},
			{Type: specs.IPCNamespace},
			{Type: specs.UTSNamespace},
			{Type: specs.NetworkNamespace},
		}},
	}
	if c.RootImage != "" {
		// Without the overlay annotation an image is read-only; without a
		// directory as root there is no gofer for it.
		spec.Root.Path = s.slot.Path(emptyDir)
		spec.Annotations["dev.gvisor.spec.rootfs.source"] = c.RootImage
		spec.Annotations["dev.gvisor.spec.rootfs.type"] = "erofs"
	}
	if s.b.rootless {
		mapCaller(spec.Linux, c.MountOwner())
	}
	return spec
}

// process starts the agent. Rootless there is a single id in the user namespace,
// which must be the job's, so that the caller's files are the job's own.
func (s *box) process(jobs sandbox.Owner) *specs.Process {
	user := specs.User{UID: sandbox.AgentUID, GID: sandbox.AgentUID}
	if s.b.rootless {
		user = specs.User{UID: jobs.UID, GID: jobs.GID}
	}
	return &specs.Process{
		User: user,
		Args: []string{sandbox.GuestBinary, "init"},
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Cwd:  "/",
		Capabilities: &specs.LinuxCapabilities{
			// Nothing it starts may get any of them, so the bounding set is empty.
			Effective: agentCaps, Inheritable: agentCaps,
			Permitted: agentCaps, Ambient: agentCaps,
		},
		NoNewPrivileges: true,
	}
}

func mapCaller(l *specs.Linux, jobs sandbox.Owner) {
	l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	l.UIDMappings = []specs.LinuxIDMapping{{ContainerID: jobs.UID, HostID: uint32(os.Geteuid()), Size: 1}} //nolint:gosec // ids are 32 bits
	l.GIDMappings = []specs.LinuxIDMapping{{ContainerID: jobs.GID, HostID: uint32(os.Getegid()), Size: 1}} //nolint:gosec // ids are 32 bits
}

// mounts lists everything but the root. gVisor adds /sys, /dev and /dev/pts, on
// which a job can't write; it would add a /tmp without a limit if there were
// none.
func mounts(c sandbox.Config, sources []string, scratch string) []specs.Mount {
	agent := strconv.Itoa(sandbox.AgentUID)
	m := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		tmpfs("/tmp", "ro", "mode=0555", "size="+strconv.Itoa(pageSize)),
	}
	for _, r := range c.RootBinds {
		m = append(m, bind(r.Source, r.Target, "ro"))
	}
	m = append(m,
		tmpfs(sandbox.GuestDir, "mode=0700", "uid="+agent, "gid="+agent, "size="+strconv.Itoa(pageSize)),
		bind(c.Guest, sandbox.GuestBinary, "ro"),
		bind(scratch, sandbox.ScratchDir, "rw"))
	for i, src := range sources {
		m = append(m, bind(src, fmt.Sprintf("%s/%d", sandbox.LowerDir, i), "ro"))
	}
	return m
}

func bind(source, target, mode string) specs.Mount {
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", mode, "nosuid"}}
}

func tmpfs(target string, options ...string) specs.Mount {
	return specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: options}
}

// scratchAnnotations turn the bind mount of a host directory into a tmpfs that
// keeps its pages in an unlinked file there. size bounds it; 0 doesn't.
func scratchAnnotations(source string, size int64) map[string]string {
	options := fmt.Sprintf("rw,mode=0700,uid=%d,gid=%d", sandbox.AgentUID, sandbox.AgentUID)
	if size > 0 {
		options += ",size=" + strconv.FormatInt(max(size/pageSize, 1)*pageSize, 10)
	}
	const prefix = "dev.gvisor.spec.mount.scratch."
	return map[string]string{
		prefix + "source":  source,
		prefix + "type":    "tmpfs",
		prefix + "share":   "container",
		prefix + "options": options,
	}
}

// writeBundle makes the directories and files that runsc needs in the slot.
func (s *box) writeBundle(c sandbox.Config, sources []string) error {
	dirs := []string{bundleDir, runtimeRoot, scratchDir}
	if c.RootImage != "" {
		dirs = append(dirs, emptyDir)
	}
	for _, d := range dirs {
		if err := os.Mkdir(s.slot.Path(d), 0o700); err != nil {
			return err
		}
	}
	data, err := json.Marshal(s.b.weakness.amend(s.bundle(c, sources)))
	if err != nil {
		return err
	}
	return os.WriteFile(s.slot.Path(bundleDir, "config.json"), data, 0o600)
}

// constantArgs are what every sandbox's runtime is started with.
var constantArgs = []string{
	"--platform=systrap",
	"--network=none",
	"--gofer-network-namespace=new",
	// Writable places are ours to size, so no mount gets an overlay.
	"--overlay2=none",
	"--ignore-cgroups",
	// What is mounted doesn't change for the job; saves a revalidation per
	// path lookup.
	"--file-access-mounts=exclusive",
	"--host-uds=none",
	"--host-fifo=none",
	"--net-raw=false",
	"--host-settings=ignore",
	"--sidecar-usage-policy=LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK",
	"--sidecar-release-enforcement-policy=IF_RELEASE_BUILD",
}

// args is the command line of runsc.
func (s *box) args() []string {
	args := append([]string{"--root=" + s.slot.Path(runtimeRoot), "--panic-log=" + s.slot.Path(panicFile)}, constantArgs...)
	return s.b.weakness.args(append(args, "run", "--bundle="+s.slot.Path(bundleDir), s.slot.ID))
}
