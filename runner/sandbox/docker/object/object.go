// Package object says how Quavon's objects of a Docker engine look: their labels,
// names and fixed properties. The backend makes them so and the guard lets nothing
// else through.
package object

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/sandbox"
)

// Labels of every object.
const (
	// LabelSandbox is the sandbox's id, "" for what all sandboxes share.
	LabelSandbox = "io.quavon.sandbox"
	// LabelInstance is the state directory whose locks say who lives.
	LabelInstance = "io.quavon.instance"
	// LabelBackend is the backend's name.
	LabelBackend = "io.quavon.backend"
	// LabelRole is one of the roles.
	LabelRole = "io.quavon.role"
)

// Roles of containers and volumes.
const (
	// RoleJob is a sandbox's container.
	RoleJob = "job"
	// RoleHelper is a container that is never started: files are read from its image
	// or written to its volume.
	RoleHelper = "helper"
	// RoleScratch is a sandbox's volume, RoleGuest the one with quavon-guest.
	RoleScratch = "scratch"
	RoleGuest   = "guest"
)

// Places inside a container.
const (
	// GuestName is the file in GuestDir, where its volume is mounted.
	GuestName = "quavon-guest"
	GuestDir  = sandbox.GuestBinary
	// GuestPath is the agent.
	GuestPath = GuestDir + "/" + GuestName
)

// AgentCaps are what the agent needs to arrange the job's view, start commands as
// other users, and handle files of any owner. None of them reach a job.
var AgentCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
	"CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT",
}

// NoNewPrivileges is the security option of every container.
const NoNewPrivileges = "no-new-privileges"

const page = 4096

// Closed are the options of a tmpfs on which nothing can be written.
var Closed = "ro,nosuid,nodev,noexec,mode=0555,size=" + strconv.Itoa(page)

// CoveredDir is covered in every sandbox's container by a tmpfs that is closed: gVisor
// would make one without a limit there.
const CoveredDir = "/tmp"

// AgentDir are the options of the agent's own directory.
var AgentDir = fmt.Sprintf("rw,nosuid,nodev,mode=0700,uid=%d,gid=%d,size=%d", sandbox.AgentUID, sandbox.AgentUID, page)

// ScratchSize rounds a disk limit as the scratch file system does.
func ScratchSize(limit int64) int64 { return max(limit/page, 1) * page }

// Scratch are the options of the scratch file system; size is in bytes, 0 no limit.
func Scratch(size int64) string {
	options := fmt.Sprintf("rw,mode=0700,uid=%d,gid=%d", sandbox.AgentUID, sandbox.AgentUID)
	if size > 0 {
		options += ",size=" + strconv.FormatInt(size, 10)
	}
	return options
}

// annotationPrefix begins what gVisor reads of the scratch mount.
const annotationPrefix = "dev.gvisor.spec.mount.scratch."

// Annotations turn the mount of the volume at source, the engine's own path of it,
// into a tmpfs of gVisor's that keeps its pages in an unlinked file there.
func Annotations(source string, size int64) map[string]string {
	return map[string]string{
		annotationPrefix + "source":  source,
		annotationPrefix + "type":    "tmpfs",
		annotationPrefix + "share":   "container",
		annotationPrefix + "options": Scratch(size),
	}
}

// AnnotationSource is the volume's path in Annotations.
const AnnotationSource = annotationPrefix + "source"

// AnnotationOptions are the mount's options in Annotations.
const AnnotationOptions = annotationPrefix + "options"

// GuestVolume is the name of the volume with the guest binary of that sha256.
func GuestVolume(hexDigest string) string { return "quavon-guest-" + hexDigest }

// ScratchVolume and Container are named after the instance and the sandbox.
func ScratchVolume(instance, id string) string { return "quavon-scratch-" + instance + "-" + id }

// Container is the name of a sandbox's container.
func Container(instance, id string) string { return "quavon-" + instance + "-" + id }

var (
	guestVolume = regexp.MustCompile(`^quavon-guest-([0-9a-f]{64})$`)
	instanceID  = regexp.MustCompile(`^[0-9a-f]{12}$`)
	digest      = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// GuestDigest is the sha256 in a guest volume's name, "" when it is none.
func GuestDigest(volume string) string {
	if m := guestVolume.FindStringSubmatch(volume); m != nil {
		return m[1]
	}
	return ""
}

// ValidInstance says whether s can be the label of an instance.
func ValidInstance(s string) bool { return instanceID.MatchString(s) }

// ValidDigest says whether s is "sha256:<hex>".
func ValidDigest(s string) bool { return digest.MatchString(s) }

// Quieted are variables that an image could influence a Go program with. They are
// set to nothing for the agent, since an image's environment can't be left out.
var Quieted = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

// Env is the agent's environment. scratch is the size to check, 0 for none.
func Env(scratch int64) []string {
	var env []string
	for _, name := range Quieted {
		env = append(env, name+"=")
	}
	value := ""
	if scratch > 0 {
		value = strconv.FormatInt(scratch, 10)
	}
	env = append(env, sandbox.EnvScratch+"="+value)
	slices.Sort(env)
	return env
}

// Command is what a sandbox's container runs.
func Command() []string { return []string{GuestPath, "init"} }

// Normal is a capability's name as this package has it: engines answer with and
// without the prefix.
func Normal(capability string) string {
	c := strings.ToUpper(capability)
	if c != "ALL" && !strings.HasPrefix(c, "CAP_") {
		c = "CAP_" + c
	}
	return c
}
