package compose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// overrides are the names of the operator's own compose file, as compose looks for it.
var overrides = []string{"compose.override.yaml", "compose.override.yml"}

// maxFile bounds a compose file and .env.
const maxFile = 1 << 20

// override is the operator's file, "" without one.
func override(t *phase.Target) string {
	for _, name := range overrides {
		path := filepath.Join(t.Dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// load reads our compose file together with the operator's, with settings from .env
// alone: what the shell has set isn't there when the next one starts the services.
func load(ctx context.Context, t *phase.Target, ours []byte) (*types.Project, error) {
	env, err := settings(t.Env())
	if err != nil {
		return nil, err
	}
	files := []types.ConfigFile{{Filename: t.Compose(), Content: ours}}
	if path := override(t); path != "" {
		theirs, err := bounded.ReadFile(path, maxFile)
		if err != nil {
			return nil, fault.Wrap(err, "read "+path, "make it readable, or remove it")
		}
		files = append(files, types.ConfigFile{Filename: path, Content: theirs})
	}
	profiles := strings.FieldsFunc(env["COMPOSE_PROFILES"], func(r rune) bool { return r == ',' || r == ' ' })
	p, err := loader.LoadWithContext(ctx, types.ConfigDetails{WorkingDir: t.Dir, ConfigFiles: files, Environment: env},
		func(o *loader.Options) {
			o.SetProjectName(Project, true)
			o.Profiles = profiles
		})
	if err != nil {
		return nil, fault.Wrap(err, "the compose files are not valid", "correct "+filepath.Join(t.Dir, overrides[0])+" or .env")
	}
	return p, check(p)
}

// settings are those of .env, as compose reads them.
func settings(path string) (map[string]string, error) {
	raw, err := bounded.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, "read the settings", "make "+path+" readable")
	}
	env, err := dotenv.UnmarshalBytesWithLookup(raw, nil)
	if err != nil { // its errors quote lines, and lines have secrets
		return nil, fault.New(path+" can't be read as compose reads it", "look for an unclosed quote or a line without =")
	}
	return env, nil
}

// check refuses what an override must not do, since then the sandbox isn't what the
// doctor and the documents say.
func check(p *types.Project) error {
	for name, s := range p.Services {
		for _, problem := range problems(s) {
			return fault.New(fmt.Sprintf("the service %s %s", name, problem), "take that out of compose.override.yaml")
		}
	}
	return nil
}

// ours are the services that this package starts.
var ours = []string{Valkey, Guard, Egress, Runner}

func problems(s types.ServiceConfig) (list []string) {
	say := func(is bool, what string) {
		if is {
			list = append(list, what)
		}
	}
	for _, v := range s.Volumes {
		say(s.Name != Guard && strings.HasSuffix(v.Source, "docker.sock"), "has the engine's socket: whoever has it is root on this host")
	}
	if !slices.Contains(ours, s.Name) {
		return list
	}
	say(s.Privileged, "is privileged")
	say(len(s.CapAdd) > 0, "has capabilities")
	say(!slices.Contains(s.CapDrop, "ALL"), "keeps capabilities")
	say(!slices.ContainsFunc(s.SecurityOpt, func(o string) bool {
		return strings.HasPrefix(o, "no-new-privileges") && !strings.HasSuffix(o, "false")
	}),
		"may gain privileges")
	say(s.Pid == "host" || s.Ipc == "host" || s.NetworkMode == "host", "shares a namespace of the host")
	say(s.User == "root" || s.User == "0" || strings.HasPrefix(s.User, "0:"), "runs as root")
	say(!strings.HasPrefix(s.Image, "sha256:"), "has an image that isn't named by its digest")
	_, outside := s.Networks["outside"]
	say(s.Name == Runner && outside, "has a network with a way out")
	say(s.Name == Guard && s.NetworkMode != "none", "has a network")
	return list
}

// published are the ports of our services that the operator has opened.
func published(p *types.Project) (list []string) {
	for _, name := range ours {
		for _, port := range p.Services[name].Ports {
			list = append(list, fmt.Sprintf("%s publishes port %s", name, port.Published))
		}
	}
	return list
}
