package compose

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// ours are the services that this package starts.
var ours = []string{Valkey, Guard, Egress, Runner}

// check refuses what an override must not do, since then the sandbox isn't what the
// doctor and the documents say. socket is the engine's.
func (p *project) check(socket string) error {
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		s := p.Services[name]
		list := p.toEngine(s, socket)
		if slices.Contains(ours, name) {
			list = append(list, slices.Concat(s.powers(), p.ways(s))...)
		}
		if len(list) > 0 {
			return fault.New("the service "+name+" "+strings.Join(list, ", "), "take that out of compose.override.yaml")
		}
	}
	return nil
}

// problems are those of a list that are so.
func problems(all ...problem) (list []string) {
	for _, p := range all {
		if p.is {
			list = append(list, p.what)
		}
	}
	return list
}

type problem struct {
	is   bool
	what string
}

// toEngine are ways to the engine that only the guard may have: whoever has its socket is
// root on this host.
func (p *project) toEngine(s service, socket string) []string {
	if s.Name == Guard {
		return nil
	}
	has := slices.ContainsFunc(p.paths(s), func(path string) bool {
		return strings.HasSuffix(path, "docker.sock") || holds(path, socket)
	})
	return problems(
		problem{has || s.UseAPISocket, "has the engine's socket: whoever has it is root on this host"},
		problem{len(s.VolumesFrom) > 0, "has the volumes of another service"},
	)
}

// paths are what a service is shown of the host's files.
func (p *project) paths(s service) (all []string) {
	for _, v := range s.Volumes {
		switch v.Type {
		case "bind":
			all = append(all, v.Source)
		case "volume": // one of the local driver can be a directory of the host
			all = append(all, p.Volumes[v.Source].DriverOpts["device"])
		}
	}
	for _, c := range s.Configs {
		all = append(all, p.Configs[c.Source].File)
	}
	for _, c := range s.Secrets {
		all = append(all, p.Secrets[c.Source].File)
	}
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}

// holds says that a path is a socket or a directory with it.
func holds(path, socket string) bool {
	rest, err := filepath.Rel(phase.Resolved(path), phase.Resolved(socket))
	return err == nil && socket != "" && rest != ".." && !strings.HasPrefix(rest, "../")
}

// powers are what a service of ours could do more than it should.
func (s service) powers() []string {
	opt := func(has func(string) bool) bool { return slices.ContainsFunc(s.SecurityOpt, has) }
	shares := func(namespace string) bool {
		kind, _, _ := strings.Cut(namespace, ":")
		return slices.Contains([]string{"host", "container", "service"}, kind)
	}
	user, _, _ := strings.Cut(s.User, ":")
	return problems(
		problem{s.Privileged, "is privileged"},
		problem{len(s.CapAdd) > 0, "has capabilities"},
		problem{len(s.Devices) > 0, "has devices of the host"},
		problem{!slices.Contains(s.CapDrop, "ALL"), "keeps capabilities"},
		problem{!opt(gains(false)) || opt(gains(true)), "may gain privileges"}, // of two the last counts
		problem{opt(func(o string) bool { return strings.HasSuffix(o, "unconfined") }), "has no seccomp or AppArmor profile"},
		problem{!s.ReadOnly, "has a root that it can write to"},
		problem{shares(s.Pid) || shares(s.Ipc) || shares(s.NetworkMode), "shares a namespace of the host or of another container"},
		problem{user == "root" || user == "0", "runs as root"},
		problem{!strings.HasPrefix(s.Image, "sha256:"), "has an image that isn't named by its digest"},
	)
}

// gains are security options by which a service may gain privileges, or may not.
func gains(may bool) func(opt string) bool {
	return func(opt string) bool {
		return strings.HasPrefix(opt, "no-new-privileges") && strings.HasSuffix(opt, "false") == may
	}
}

// ways are networks that a service of ours must not have.
func (p *project) ways(s service) []string {
	out := s.NetworkMode != "" && s.NetworkMode != "none"
	for name := range s.Networks {
		out = out || !p.Networks[name].Internal
	}
	return problems(
		problem{s.Name == Runner && out, "has a network with a way out"},
		problem{s.Name == Guard && s.NetworkMode != "none", "has a network"},
	)
}

// published are the ports of our services that the operator has opened.
func published(p *project) (list []string) {
	for _, name := range ours {
		for _, port := range p.Services[name].Ports {
			list = append(list, fmt.Sprintf("%s publishes port %s", name, port.Published))
		}
	}
	return list
}
