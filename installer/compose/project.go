package compose

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/regular"
	"github.com/quavon/quavon/runner/fault"
)

// overrides are the names of the operator's own compose file, as compose looks for it.
var overrides = []string{"compose.override.yaml", "compose.override.yml"}

// maxFile bounds .env and each compose file, maxLock a lock, in bytes.
const (
	maxFile = 1 << 20
	maxLock = 64 << 20
)

// override is the operator's file, "" without one.
func override(t *phase.Target) string {
	for _, name := range overrides {
		path := filepath.Join(t.Dir, name)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// checkOverride refuses one that compose would wait for, or not find.
func checkOverride(t *phase.Target) error {
	path := override(t)
	if path == "" {
		return nil
	}
	if _, err := regular.ReadFile(path, maxFile); err != nil {
		return fault.Wrap(err, "read the operator's compose file", "correct "+path)
	}
	return nil
}

// project is what compose makes of our file and the operator's: merged, interpolated
// and checked against its schema. It is asked of the very program that starts the
// services, whose version the operator has chosen. (compose-go's loader would do
// here, too, but the schema library it links adds 4 ms to each start of quavon.)
type project struct {
	Services map[string]service   `json:"services"`
	Volumes  map[string]volumeOf  `json:"volumes"`
	Networks map[string]networkOf `json:"networks"`
	Configs  map[string]fileOf    `json:"configs"`
	Secrets  map[string]fileOf    `json:"secrets"`
}

// fileOf has what is checked of a config or a secret.
type fileOf struct {
	File string `json:"file"`
}

// networkOf has what is checked of a network.
type networkOf struct {
	Internal bool `json:"internal"`
}

// service has what is checked of a service.
type service struct {
	Name        string
	Image       string                          `json:"image"`
	User        string                          `json:"user"`
	Privileged  bool                            `json:"privileged"`
	ReadOnly    bool                            `json:"read_only"`
	CapAdd      []string                        `json:"cap_add"`
	CapDrop     []string                        `json:"cap_drop"`
	SecurityOpt []string                        `json:"security_opt"`
	Devices     []any                           `json:"devices"`
	Pid         string                          `json:"pid"`
	Ipc         string                          `json:"ipc"`
	NetworkMode string                          `json:"network_mode"`
	Networks    map[string]any                  `json:"networks"`
	Volumes     []struct{ Type, Source string } `json:"volumes"`
	VolumesFrom []string                        `json:"volumes_from"`
	Configs     []struct{ Source string }       `json:"configs"`
	Secrets     []struct{ Source string }       `json:"secrets"`
	Ports       []struct {
		Published string `json:"published"`
	} `json:"ports"`
	UseAPISocket bool `json:"use_api_socket"`
}

// load reads a compose file together with the operator's, with settings from .env
// alone: what the shell has set isn't there when the next one starts the services.
func load(ctx context.Context, c cli) (*project, error) {
	if err := errors.Join(checkSettings(c.target.Env()), checkOverride(c.target)); err != nil {
		return nil, err
	}
	out, err := c.output(ctx, "config", "--format=json")
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && c.alone() && strings.Contains(err.Error(), "COMPOSE_EXPERIMENTAL_"): // it names what it was forbidden by
		return nil, errElsewhere
	case err != nil:
		return nil, fault.Wrap(err, "the compose files are not valid", "correct "+filepath.Join(c.target.Dir, overrides[0])+" or .env")
	}
	p := &project{}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(out, "$$", "$")), p); err != nil { // it shows a $ as compose files have it
		return nil, fault.Wrap(err, "docker compose shows the services in another form than expected",
			"report it, with `docker compose version`")
	}
	for name, s := range p.Services {
		s.Name = name
		p.Services[name] = s
	}
	return p, p.check(c.target.Socket)
}

// errElsewhere is of files that compose would fetch, where it must not.
var errElsewhere = fault.New(overrides[0]+" takes in files of elsewhere (git or oci), which an offline installation doesn't fetch",
	"put them beside it")

// checkSettings refuses a .env that compose can't read. Its own errors quote lines,
// and lines may have secrets.
func checkSettings(path string) error {
	raw, err := regular.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, "read the settings", "make "+path+" readable")
	}
	if _, err := dotenv.UnmarshalBytesWithLookup(raw, nil); err != nil {
		return fault.New(path+" can't be read as compose reads it", "look for an unclosed quote or a line without =")
	}
	return nil
}
