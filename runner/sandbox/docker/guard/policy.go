package guard

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// checkLabels wants the labels of an object of a sandbox, and of one of the roles.
func checkLabels(l map[string]string, roles ...string) error {
	want := 4
	if l[object.LabelRole] == object.RoleGuest {
		want = 2 // it belongs to nobody
	} else if !job.ValidID(l[object.LabelSandbox]) || !object.ValidInstance(l[object.LabelInstance]) || l[object.LabelBackend] == "" {
		return errors.New("labels that aren't quavon's")
	}
	if len(l) != want || !slices.Contains(roles, l[object.LabelRole]) || len(l[object.LabelBackend]) > 64 {
		return errors.New("labels that aren't quavon's")
	}
	return nil
}

// checkCreate wants a container as the backend makes it: a sandbox's, or a helper,
// which has no capabilities and is never started.
func (g *Guard) checkCreate(name string, b *createBody) error {
	h := b.HostConfig
	if h == nil || b.Healthcheck == nil {
		return errors.New("no HostConfig or no Healthcheck")
	}
	if err := checkLabels(b.Labels, object.RoleJob, object.RoleHelper); err != nil {
		return err
	}
	helper := b.Labels[object.LabelRole] == object.RoleHelper
	caps, entrypoint, stdin, env := object.AgentCaps, object.Command(), true, object.Env(scratchSize(h))
	if helper {
		caps, entrypoint, stdin, env = nil, []string{object.GuestPath}, false, nil
	}
	for what, ok := range map[string]bool{
		"Name":           name == object.Container(b.Labels[object.LabelInstance], b.Labels[object.LabelSandbox]),
		"Image":          object.ValidDigest(b.Image) && g.images[b.Image],
		"Hostname":       b.Hostname == "" || b.Hostname == "quavon",
		"User":           b.User == "0:0",
		"WorkingDir":     b.WorkingDir == "/",
		"Entrypoint":     slices.Equal(b.Entrypoint, entrypoint),
		"Env":            slices.Equal(b.Env, env),
		"Healthcheck":    slices.Equal(b.Healthcheck.Test, []string{"NONE"}),
		"OpenStdin":      b.OpenStdin == stdin && b.StdinOnce == stdin,
		"AttachStdin":    b.AttachStdin == stdin && b.AttachStdout == stdin && b.AttachStderr == stdin,
		"LogConfig":      h.LogConfig.Type == "none",
		"NetworkMode":    h.NetworkMode == "none",
		"RestartPolicy":  h.RestartPolicy.Name == "no",
		"IpcMode":        h.IpcMode == "none",
		"ReadonlyRootfs": h.ReadonlyRootfs,
		"Runtime":        slices.Contains(g.Runtimes, h.Runtime),
		"CapDrop":        slices.Equal(h.CapDrop, []string{"ALL"}),
		"CapAdd":         subset(h.CapAdd, caps),
		"SecurityOpt":    slices.Contains(h.SecurityOpt, object.NoNewPrivileges) && subset(h.SecurityOpt, securityOptions),
		"Memory":         h.Memory >= 0 && h.MemorySwap == h.Memory,
		"NanoCpus":       h.NanoCpus >= 0,
		"PidsLimit":      h.PidsLimit == nil || *h.PidsLimit > 0,
	} {
		if !ok {
			return fmt.Errorf("%s isn't as the docker backend sets it", what)
		}
	}
	return checkTmpfs(h.Tmpfs)
}

// securityOptions may be there; none of the last two opens gVisor.
var securityOptions = []string{object.NoNewPrivileges, "label=disable", "apparmor=unconfined"}

func subset(list, of []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(of, s) })
}

var scratchOptions = regexp.MustCompile(`^` + regexp.QuoteMeta(object.Scratch(0)) + `(?:,size=([1-9][0-9]{0,18}))?(?:,exec)?$`)

// scratchSize is the size that a container's scratch file system is to have, 0 for
// none.
func scratchSize(h *hostConfig) int64 {
	for _, options := range []string{h.Annotations[object.AnnotationOptions], h.Tmpfs[sandbox.ScratchDir]} {
		if m := scratchOptions.FindStringSubmatch(options); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64) // out of range is refused by the comparison
			return n
		}
	}
	return 0
}

// checkTmpfs allows the agent's directory, scratch in memory, and file systems that
// only cover something.
func checkTmpfs(list map[string]string) error {
	for at, options := range list {
		switch {
		case !path.IsAbs(at) || path.Clean(at) != at:
			return fmt.Errorf("the path %.60q", at)
		case options == object.Closed, at == sandbox.GuestDir && options == object.AgentDir:
		case at == sandbox.ScratchDir && scratchOptions.MatchString(options):
		default:
			return fmt.Errorf("a writable file system at %.60q", at)
		}
	}
	return nil
}

// volume is what the engine says of one.
type volume struct {
	Name, Driver, Mountpoint, CreatedAt, Scope string
	Labels, Options                            map[string]string
}

// checkMounts allows the guest's volume, which only a helper may write to, and the
// sandbox's own scratch volume. look asks the engine for a volume.
func checkMounts(b *createBody, look func(name string) (volume, error)) error {
	annotations := map[string]string(nil)
	helper := b.Labels[object.LabelRole] == object.RoleHelper
	for _, m := range b.HostConfig.Mounts {
		if m.Type != "volume" || m.VolumeOptions == nil || !m.VolumeOptions.NoCopy {
			return errors.New("a mount that is no volume of quavon's")
		}
		guest := object.GuestDigest(m.Source) != "" && m.Target == object.GuestDir && m.ReadOnly != helper
		scratch := !helper && m.Target == sandbox.ScratchDir && !m.ReadOnly &&
			m.Source == object.ScratchVolume(b.Labels[object.LabelInstance], b.Labels[object.LabelSandbox])
		if !guest && !scratch {
			return errors.New("a mount that is no volume of quavon's")
		}
		v, err := look(m.Source)
		if err != nil {
			return err
		}
		if err := checkVolume(v); err != nil {
			return err
		}
		if scratch {
			annotations = object.Annotations(v.Mountpoint, scratchSize(b.HostConfig))
		}
	}
	if !maps.Equal(annotations, b.HostConfig.Annotations) && len(b.HostConfig.Annotations) > 0 {
		return errors.New("annotations that aren't the scratch volume's")
	}
	if annotations != nil && b.HostConfig.Annotations == nil {
		return errors.New("a scratch volume without a limit")
	}
	return nil
}

// checkVolume wants a plain local volume with our labels.
func checkVolume(v volume) error {
	if v.Driver != "local" || len(v.Options) > 0 {
		return errors.New("a volume with a driver or options")
	}
	return checkLabels(v.Labels, object.RoleScratch, object.RoleGuest)
}

// checkNewVolume wants a volume with the name that its role has.
func checkNewVolume(b *volumeBody) error {
	if b.Driver != "local" {
		return errors.New("the driver isn't local")
	}
	if err := checkLabels(b.Labels, object.RoleScratch, object.RoleGuest); err != nil {
		return err
	}
	ok := object.GuestDigest(b.Name) != ""
	if b.Labels[object.LabelRole] == object.RoleScratch {
		ok = b.Name == object.ScratchVolume(b.Labels[object.LabelInstance], b.Labels[object.LabelSandbox])
	}
	if !ok {
		return errors.New("the name isn't its role's")
	}
	return nil
}
