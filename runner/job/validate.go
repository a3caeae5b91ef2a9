package job

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/quavon/quavon/runner/fault"
)

// WorkspaceDir is where a job finds its workspace, and where steps start unless
// they say otherwise.
const WorkspaceDir = "/workspace"

// Bounds of a Spec. They keep a hostile or mistaken one from growing past what
// the agent protocol carries.
const (
	maxSteps  = 256
	MaxMounts = 64
	maxGlobs  = 256
	maxUser   = 128
	maxPath   = 4095
	minMemory = 64 << 20
	minDisk   = 1 << 20
)

// Bounds of a step's arguments and of its environment, strings counted with a
// final zero byte each.
const (
	MaxStrings  = 8000
	MaxArgBytes = 120 << 10
	MaxEnvBytes = 88 << 10
)

// reserved lists what no mount may cover: the kernel's file systems, the
// agent's directory, and what the root itself provides.
var reserved = []string{"/proc", "/sys", "/dev", "/.quavon", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64"}

// Validate says whether a job can be run as written. The error is a
// *fault.Error with the code "rejected" that names the field at fault.
func (s Spec) Validate() error {
	for _, check := range []func() error{
		s.validateID, s.validateRoot, s.validateMounts, s.validateSteps, s.validateSecrets, s.Limits.validate, s.validateResults,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func reject(field, why, hint string) error {
	return fault.New("job "+field+" "+why, hint).WithCode(string(ReasonRejected))
}

// ValidID says whether id may name a job: 1 to 64 characters of [a-z0-9-],
// beginning with a letter or digit so that it is never taken for an option.
func ValidID(id string) bool {
	if id == "" || len(id) > 64 || id[0] == '-' {
		return false
	}
	return strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (s Spec) validateID() error {
	if !ValidID(s.ID) {
		return reject("id", fmt.Sprintf("%q is not valid", s.ID), "use 1 to 64 characters of a-z, 0-9 and -")
	}
	return nil
}

func (s Spec) validateRoot() error {
	switch s.Root.Kind {
	case RootHost:
		if s.Root.Image != "" || s.Root.User != "" {
			return reject("root.image", "or root.user is set for the host's root", "leave it out, or set root.kind to image")
		}
	case RootImage:
		if ok, _ := regexp.MatchString(`^sha256:[0-9a-f]{64}$`, s.Root.Image); !ok {
			return reject("root.image", fmt.Sprintf("%q is not a digest", s.Root.Image), "write sha256: and 64 hexadecimal digits")
		}
		if len(s.Root.User) > maxUser || strings.ContainsFunc(s.Root.User, unicode.IsControl) {
			return reject("root.user", fmt.Sprintf("%.200q is not valid", s.Root.User), "write NAME, UID or UID:GID")
		}
	default:
		return reject("root.kind", fmt.Sprintf("%q is unknown", s.Root.Kind), "use host or image")
	}
	return nil
}

func (s Spec) validateResults() error {
	if !slices.Contains([]ChangeMode{ChangesNone, ChangesList, ChangesContent}, s.Changes) {
		return reject("changes", fmt.Sprintf("%q is unknown", s.Changes), "use list or content, or leave it out")
	}
	hasWorkspace := slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Target == WorkspaceDir && m.Mode == MountOverlay })
	if s.Changes != ChangesNone && !hasWorkspace {
		return reject("changes", "are asked for without a workspace", "mount a directory at "+WorkspaceDir+" as an overlay")
	}
	if len(s.Collect) > maxGlobs {
		return reject("collect", fmt.Sprintf("has more than %d patterns", maxGlobs), "use wider patterns, such as **/*.xml")
	}
	for i, g := range s.Collect {
		if err := validateGlob(g); err != "" {
			return reject(fmt.Sprintf("collect[%d]", i), err, "write a pattern relative to the workspace, such as reports/**/*.xml")
		}
	}
	return nil
}

func validateGlob(g string) string {
	switch {
	case g == "" || len(g) > maxPath || strings.ContainsRune(g, 0):
		return "is empty, too long or has a NUL byte"
	case path.IsAbs(g):
		return fmt.Sprintf("%q is absolute", g)
	case slices.Contains(strings.Split(g, "/"), ".."):
		return fmt.Sprintf("%q leaves the workspace", g)
	case !doublestar.ValidatePattern(g):
		return fmt.Sprintf("%q is not a valid pattern", g)
	}
	return ""
}
